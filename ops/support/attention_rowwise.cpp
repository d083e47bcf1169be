#include "ops/support/attention_rowwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/kernel.h"
#include "ops/support/attention_mask.h"
#include "ops/support/attention_rows.h"
#include "ops/support/parallel.h"
#include "ops/support/philox.h"

namespace attune {
namespace {

BufferRef acquire(BufferPool* pool, size_t bytes) { return pool ? pool->acquire(bytes) : BufferRef::allocate(bytes); }

template <class T>
using Acc = Accumulator<T>;

template <class T>
Acc<T> widen(T x) {
  return static_cast<Acc<T>>(x);
}

// Memory of one thread.
template <class A>
struct RowScratch {
  A* query;      // E or Ek: what is compared with keys
  A* vector;     // E: v of additive scores
  A* scores;     // Tk
  A* mean;       // Tk: sums over heads, for head_mean
  A* context;    // F
  uint8_t* see;  // Tk: 1 where a position takes part

  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>(std::max(p.query_width, p.key_width) + p.query_width + 2 * p.key_length + p.value_width);
  }
  static size_t bytes(const AttentionProblem& p) {
    return (numbers(p) * sizeof(A) + static_cast<size_t>(p.key_length) + 63) / 64 * 64;
  }
  RowScratch(const AttentionProblem& p, std::byte* memory) {
    query = reinterpret_cast<A*>(memory);
    vector = query + std::max(p.query_width, p.key_width);
    scores = vector + p.query_width;
    mean = scores + p.key_length;
    context = mean + p.key_length;
    see = reinterpret_cast<uint8_t*>(context + p.value_width);
  }
};

// T: the type of queries, masks and results; K: that of keys and values.
template <class T, class K>
class RowwiseAttention {
 public:
  using A = Acc<T>;
  static constexpr A kInfinity = std::numeric_limits<A>::infinity();

  RowwiseAttention(const AttentionProblem& p, const uint8_t* only) : p_(p), c_(*p.config), only_(only) {}

  void run(BufferPool* pool) {
    const bool mean = p_.weights && c_.weights == AttentionWeights::kHeadMean;
    const bool ordered = c_.alignment == AttentionAlignment::kMonotonic;
    BufferRef positions_memory;
    if (ordered) {
      positions_memory = acquire(pool, static_cast<size_t>(p_.batch * p_.heads) * sizeof(int64_t));
      positions_ = reinterpret_cast<int64_t*>(positions_memory->data());
      for (int64_t i = 0; i < p_.batch * p_.heads; ++i)
        positions_[i] = p_.position ? std::min(p_.position[i], p_.key_length) : 0;
    }
    // A task holds what must run in order: the queries of a monotonic head, the heads of a mean.
    const int64_t head_tasks = mean ? 1 : p_.heads, query_tasks = ordered ? 1 : p_.query_length;
    const int64_t tasks = p_.batch * head_tasks * query_tasks;
    const int64_t heads = p_.heads / std::max<int64_t>(head_tasks, 1), queries = ordered ? p_.query_length : 1;
    const double work = static_cast<double>(p_.batch * p_.heads * p_.query_length) *
                        static_cast<double>(p_.key_length) * static_cast<double>(p_.key_width + p_.value_width);
    constexpr double kWorthThreads = 1 << 17;
    const int threads =
        work < kWorthThreads ? 1 : static_cast<int>(std::min<int64_t>(parallel_width(), std::max<int64_t>(tasks, 1)));
    const size_t bytes = RowScratch<A>::bytes(p_);
    const BufferRef memory = acquire(pool, bytes * static_cast<size_t>(threads));
    parallel_parts(threads, [&](int part) {
      RowScratch<A> s(p_, memory->data() + bytes * static_cast<size_t>(part));
      for (int64_t task = tasks * part / threads; task < tasks * (part + 1) / threads; ++task) {
        const int64_t t0 = task % query_tasks, bh = task / query_tasks;
        const int64_t b = bh / head_tasks, h0 = bh % head_tasks;
        for (int64_t t = t0; t < t0 + queries; ++t) {
          if (mean && only_ && !only_[b * p_.heads * p_.query_length + t]) continue;
          if (mean) std::fill_n(s.mean, p_.key_length, A{0});
          for (int64_t h = h0; h < h0 + heads; ++h)
            if (!only_ || only_[(b * p_.heads + h) * p_.query_length + t]) attend(b, h, t, s);
          if (mean) store_mean(b, t, s);
        }
      }
    });
    if (ordered && p_.next_position) std::copy_n(positions_, p_.batch * p_.heads, p_.next_position);
  }

 private:
  // Calls f(rows, first) for the parts of `operand` (one or two segments in time) that lie in [first, last).
  template <class F>
  void for_each_part(const std::array<HeadsView, 2>& operand, int64_t b, int64_t h, KeyRange range, F&& f) const {
    int64_t start = 0;
    const int64_t g = h / (p_.heads / p_.kv_heads);
    for (const HeadsView& v : operand) {
      int64_t from = std::max(range.first, start);
      const int64_t to = std::min(range.last, start + v.length);
      if (const int64_t placed = v.index ? std::min(to, start + v.index.columns) : from; from < placed) {
        const K* data = reinterpret_cast<const K*>(v.data) + g * v.head_stride + (from - start) * v.row_stride;
        const int32_t* places = v.index.of(b * v.index_step) + 1 + (from - start);
        f(RowBlock<K>{data, v.row_stride, placed - from, v.width, places, v.batch_stride}, from);
        from = placed;
      }
      if (from < to) f(RowBlock<K>{v.row<K>(b, g, from - start), v.row_stride, to - from, v.width}, from);
      start += v.length;
    }
  }

  void load_query(int64_t b, int64_t h, int64_t t, RowScratch<A>& s) const {
    const T* query = p_.query.row<T>(b, h, t);
    if (c_.score == AttentionScore::kGeneral) {
      A* plain = s.vector;
      for (int64_t e = 0; e < p_.query_width; ++e) plain[e] = widen(query[e]);
      std::fill_n(s.query, p_.key_width, A{0});
      const T* w = reinterpret_cast<const T*>(p_.w_score) + h * p_.query_width * p_.key_width;
      add_weighted(RowBlock<T>{w, p_.key_width, p_.query_width, p_.key_width}, plain, s.query);
      return;
    }
    for (int64_t e = 0; e < p_.query_width; ++e) s.query[e] = widen(query[e]);
    if (c_.score == AttentionScore::kAdditive) {
      const T* v = reinterpret_cast<const T*>(p_.w_score) + h * p_.query_width;
      for (int64_t e = 0; e < p_.query_width; ++e) s.vector[e] = widen(v[e]);
    }
  }

  // Step 3: scores of keys in `range`.
  void score(int64_t b, int64_t h, KeyRange range, RowScratch<A>& s) const {
    const A offset = p_.b_score ? widen(reinterpret_cast<const T*>(p_.b_score)[h]) : A{0};
    for_each_part(p_.keys, b, h, range, [&](RowBlock<K> keys, int64_t first) {
      if (c_.score == AttentionScore::kAdditive) {
        score_additive(keys, s.query, s.vector, offset, s.scores + first);
      } else {
        score_dot(keys, s.query, static_cast<A>(p_.scale), offset, s.scores + first);
      }
    });
  }

  // Step 5: adds the mask to the scores in `range`, those of excluded positions become -inf; s.see tells which take
  // part. Gives their number.
  int64_t mask(int64_t b, int64_t h, int64_t t, KeyRange range, RowScratch<A>& s) const {
    int64_t count = 0;
    apply_mask<T>(p_.mask, b, h, t, range, s.scores + range.first, A{1}, [&](int64_t i, bool seen) {
      s.see[range.first + i] = seen;
      count += seen;
    });
    return count;
  }

  // Where the scores of a row stand: the range that is computed, and whether s.see applies to it.
  struct Row {
    KeyRange range;
    bool masked;
    int64_t count;  // positions that take part
  };

  // Calls f(first, last) for the runs of positions that take part.
  template <class F>
  void for_each_run(const Row& row, const RowScratch<A>& s, F&& f) const {
    if (!row.masked || row.count == row.range.last - row.range.first) {
      f(row.range);
      return;
    }
    for (int64_t i = row.range.first; i < row.range.last;) {
      while (i < row.range.last && !s.see[i]) ++i;
      const int64_t first = i;
      while (i < row.range.last && s.see[i]) ++i;
      if (first < i) f(KeyRange{first, i});
    }
  }

  bool sees(const Row& row, const RowScratch<A>& s, int64_t i) const {
    return i >= row.range.first && i < row.range.last && (!row.masked || s.see[i]);
  }

  void attend(int64_t b, int64_t h, int64_t t, RowScratch<A>& s) const {
    load_query(b, h, t, s);
    std::fill_n(s.context, p_.value_width, A{0});
    Row row{visible_keys(p_, b, t), p_.mask.data != nullptr, 0};
    if (c_.alignment == AttentionAlignment::kMonotonic && !wants_all_scores()) {
      attend_monotonic(b, h, t, row, s);
    } else {
      const KeyRange computed = wants_all_scores() ? KeyRange{0, p_.key_length} : row.range;
      score(b, h, computed, s);
      if (wants(AttentionWeights::kRaw)) store_weights(b, h, t, s);
      if (c_.softcap > 0)
        soft_cap(s.scores + computed.first, computed.last - computed.first, static_cast<A>(c_.softcap));
      if (wants(AttentionWeights::kCapped)) store_weights(b, h, t, s);
      row.count = row.range.last - row.range.first;
      if (row.masked) row.count = mask(b, h, t, row.range, s);
      if (wants(AttentionWeights::kBiased)) {
        fill_outside(row.range, -kInfinity, s);
        store_weights(b, h, t, s);
      }
      align(b, h, t, row, s);
    }
    if (wants(AttentionWeights::kNormalized)) store_weights(b, h, t, s);
    if (wants(AttentionWeights::kHeadMean))
      for (int64_t i = 0; i < p_.key_length; ++i) s.mean[i] += s.scores[i];
    T* context = p_.context.mutable_row<T>(b, h, t);
    for (int64_t f = 0; f < p_.value_width; ++f) context[f] = static_cast<T>(s.context[f]);
  }

  // Steps 6 and 7: the scores become weights.
  void align(int64_t b, int64_t h, int64_t t, const Row& row, RowScratch<A>& s) const {
    if (c_.alignment == AttentionAlignment::kMonotonic) {
      choose_in_order(b, h, row, s);
    } else if (row.count == 0) {
      spread_evenly(b, h, s);
    } else if (c_.alignment == AttentionAlignment::kHard) {
      const int64_t chosen = c_.sample ? draw(b, h, t, row, s) : find_largest(row, s);
      choose_one(b, h, chosen, s);
    } else {
      soften(b, h, row, s);
    }
  }

  void soften(int64_t b, int64_t h, const Row& row, RowScratch<A>& s) const {
    const auto [first, last] = row.range;
    const A maximum = largest(s.scores + first, last - first);
    const A sum = exponentials(s.scores + first, last - first, maximum);
    scale_numbers(s.scores + first, last - first, 1 / sum);
    // What is seen may be NaN and pass through every weight but those of excluded positions.
    if (row.masked && !std::isfinite(1 / sum))
      for (int64_t i = first; i < last; ++i)
        if (!s.see[i]) s.scores[i] = 0;
    if (keeps_weights()) fill_outside(row.range, A{0}, s);
    for_each_run(row, s, [&](KeyRange run) { combine(b, h, run, s); });
  }

  void combine(int64_t b, int64_t h, KeyRange run, RowScratch<A>& s) const {
    for_each_part(p_.values, b, h, run,
                  [&](RowBlock<K> values, int64_t first) { add_weighted(values, s.scores + first, s.context); });
  }

  // An empty row: zeros, or the mean of all values.
  void spread_evenly(int64_t b, int64_t h, RowScratch<A>& s) const {
    const bool mean = c_.mean_of_empty_rows && c_.alignment != AttentionAlignment::kMonotonic;
    std::fill_n(s.scores, p_.key_length, mean && p_.key_length > 0 ? 1 / static_cast<A>(p_.key_length) : A{0});
    if (mean) combine(b, h, {0, p_.key_length}, s);
  }

  int64_t find_largest(const Row& row, const RowScratch<A>& s) const {
    int64_t best = -1;
    for_each_run(row, s, [&](KeyRange run) {
      for (int64_t i = run.first; i < run.last; ++i)
        if (best < 0 || s.scores[i] > s.scores[best]) best = i;
    });
    return best;
  }

  int64_t draw(int64_t b, int64_t h, int64_t t, const Row& row, const RowScratch<A>& s) const {
    const auto word = [](int64_t x) { return static_cast<uint32_t>(x); };
    const double u = philox4x32_10({p_.draw, word(b), word(h), word(t)}, static_cast<uint64_t>(c_.seed))[0] * 0x1p-32;
    const double maximum = static_cast<double>(s.scores[find_largest(row, s)]);
    double total = 0;
    for_each_run(row, s, [&](KeyRange run) {
      for (int64_t i = run.first; i < run.last; ++i) total += std::exp(static_cast<double>(s.scores[i]) - maximum);
    });
    double sum = 0;
    int64_t chosen = -1, seen = -1;
    for_each_run(row, s, [&](KeyRange run) {
      for (int64_t i = run.first; i < run.last && chosen < 0; ++i) {
        seen = i;
        sum += std::exp(static_cast<double>(s.scores[i]) - maximum) / total;
        if (sum > u) chosen = i;
      }
    });
    return chosen >= 0 ? chosen : seen;
  }

  void choose_one(int64_t b, int64_t h, int64_t chosen, RowScratch<A>& s) const {
    if (keeps_weights()) fill_outside({chosen, chosen}, A{0}, s);
    s.scores[chosen] = 1;
    combine(b, h, {chosen, chosen + 1}, s);
  }

  // Monotonic alignment over scores that are all there.
  void choose_in_order(int64_t b, int64_t h, const Row& row, RowScratch<A>& s) const {
    int64_t& position = positions_[b * p_.heads + h];
    int64_t i = std::max(position, row.range.first);
    while (i < row.range.last && !(sees(row, s, i) && s.scores[i] >= 0)) ++i;
    if (i >= row.range.last) {
      position = p_.key_length;
      std::fill_n(s.scores, p_.key_length, A{0});
      return;
    }
    position = i;
    soften_chunk(b, h, i, row, s);
  }

  // Monotonic alignment that computes scores as far as the choice asks for them.
  void attend_monotonic(int64_t b, int64_t h, int64_t t, Row row, RowScratch<A>& s) const {
    constexpr int64_t kBlock = 64;
    const auto compute = [&](KeyRange part) {
      score(b, h, part, s);
      if (c_.softcap > 0) soft_cap(s.scores + part.first, part.last - part.first, static_cast<A>(c_.softcap));
      if (row.masked) mask(b, h, t, part, s);
    };
    int64_t& position = positions_[b * p_.heads + h];
    const int64_t start = std::max(position, row.range.first);
    int64_t chosen = -1;
    for (int64_t from = start; from < row.range.last && chosen < 0; from += kBlock) {
      const KeyRange part{from, std::min(from + kBlock, row.range.last)};
      compute(part);
      for (int64_t i = part.first; i < part.last && chosen < 0; ++i)
        if (sees(row, s, i) && s.scores[i] >= 0) chosen = i;
    }
    if (chosen < 0) {
      position = p_.key_length;
      if (keeps_weights()) std::fill_n(s.scores, p_.key_length, A{0});
      return;
    }
    position = chosen;
    const int64_t first = std::max(row.range.first, chosen + 1 - std::min(c_.chunk, chosen + 1));
    if (first < start) compute({first, start});
    soften_chunk(b, h, chosen, row, s);
  }

  // Soft weights over the positions that take part among the `chunk` last ones up to `chosen`.
  void soften_chunk(int64_t b, int64_t h, int64_t chosen, const Row& row, RowScratch<A>& s) const {
    const int64_t first = std::max(row.range.first, chosen + 1 - std::min(c_.chunk, chosen + 1));
    const KeyRange chunk{first, chosen + 1};
    Row part{chunk, row.masked, 0};
    if (part.masked) part.count = std::count(s.see + chunk.first, s.see + chunk.last, uint8_t{1});
    soften(b, h, part, s);
  }

  bool wants(AttentionWeights kind) const { return p_.weights && c_.weights == kind; }
  bool wants_all_scores() const {
    return wants(AttentionWeights::kRaw) || wants(AttentionWeights::kCapped) || wants(AttentionWeights::kBiased);
  }
  bool keeps_weights() const { return wants(AttentionWeights::kNormalized) || wants(AttentionWeights::kHeadMean); }

  void fill_outside(KeyRange range, A value, RowScratch<A>& s) const {
    std::fill(s.scores, s.scores + range.first, value);
    std::fill(s.scores + range.last, s.scores + p_.key_length, value);
  }

  void store_weights(int64_t b, int64_t h, int64_t t, const RowScratch<A>& s) const {
    T* row = reinterpret_cast<T*>(p_.weights) + ((b * p_.heads + h) * p_.query_length + t) * p_.key_length;
    const bool masked = c_.weights == AttentionWeights::kBiased && p_.mask.data && !p_.mask.boolean;
    for (int64_t i = 0; i < p_.key_length; ++i)
      row[i] = masked ? narrow_masked<T>(s.scores[i]) : static_cast<T>(s.scores[i]);
  }

  void store_mean(int64_t b, int64_t t, const RowScratch<A>& s) const {
    T* row = reinterpret_cast<T*>(p_.weights) + (b * p_.query_length + t) * p_.key_length;
    for (int64_t i = 0; i < p_.key_length; ++i) row[i] = static_cast<T>(s.mean[i] / static_cast<A>(p_.heads));
  }

  const AttentionProblem& p_;
  const AttentionConfig& c_;
  const uint8_t* only_;
  int64_t* positions_ = nullptr;
};

}  // namespace

void attend_rowwise(const AttentionProblem& problem, BufferPool* pool, const uint8_t* only) {
  if (problem.memory_type != problem.type) {
    dispatch<Float16, BFloat16>(problem.memory_type,
                                [&]<class K>() { RowwiseAttention<float, K>(problem, only).run(pool); });
    return;
  }
  dispatch<float, Float16, BFloat16, double>(problem.type,
                                             [&]<class T>() { RowwiseAttention<T, T>(problem, only).run(pool); });
}

}  // namespace attune
