#include "ops/support/top_columns.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/support/parallel.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

constexpr int64_t kStretch = kLogSumStretch;
static_assert(kStretch % PanelWeights::kPanel == 0);
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The best of one row so far, in order.
class Best {
 public:
  explicit Best(int64_t count)
      : values_(static_cast<size_t>(count), kMinusInfinity), columns_(static_cast<size_t>(count), 0) {}

  // Columns come in ascending order.
  void add(const float* row, int64_t n, int64_t first) {
    for (int64_t i = find_above(row, 0, n, worst()); i < n; i = find_above(row, i + 1, n, worst()))
      insert(row[i], first + i);
  }
  void add(const Best& later) {
    for (size_t i = 0; i < later.values_.size() && later.values_[i] > worst(); ++i)
      insert(later.values_[i], later.columns_[i]);
  }

  // Logarithms of probabilities, plus `offset`, instead of results. False if columns that have been dropped may be as
  // good as the last of the first `count`: different results may become the same.
  bool to_log_probabilities(const LogSum& sum, float offset, int64_t count) {
    subtract_log_sum(values_.data(), sum, values_.data(), static_cast<int64_t>(values_.size()));
    for (float& v : values_) v += offset;
    const bool full = values_.back() > kMinusInfinity;
    if (full && values_.back() == values_[static_cast<size_t>(count - 1)]) return false;
    std::vector<size_t> order(values_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return values_[a] != values_[b] ? values_[a] > values_[b] : columns_[a] < columns_[b];
    });
    const Best before = *this;
    for (size_t i = 0; i < order.size(); ++i) {
      values_[i] = before.values_[order[i]];
      columns_[i] = before.columns_[order[i]];
    }
    return true;
  }

  void write(int64_t count, float* values, int64_t* columns) const {
    std::copy_n(values_.data(), count, values);
    std::copy_n(columns_.data(), count, columns);
  }

 private:
  float worst() const { return values_.back(); }
  void insert(float value, int64_t column) {
    size_t at = values_.size() - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      columns_[at] = columns_[at - 1];
    }
    values_[at] = value;
    columns_[at] = column;
  }

  std::vector<float> values_;
  std::vector<int64_t> columns_;
};

// The lists of all parts and rows.
class Lists {
 public:
  Lists(int parts, int64_t rows, int64_t count) : rows_(rows), lists_(static_cast<size_t>(parts * rows), Best(count)) {}
  Best& at(int part, int64_t r) { return lists_[static_cast<size_t>(part * rows_ + r)]; }
  // A row's list of all parts, whose columns ascend.
  Best& joined(int64_t r) {
    for (size_t i = static_cast<size_t>(rows_ + r); i < lists_.size(); i += static_cast<size_t>(rows_))
      lists_[static_cast<size_t>(r)].add(lists_[i]);
    return lists_[static_cast<size_t>(r)];
  }

 private:
  int64_t rows_;
  std::vector<Best> lists_;
};

void exclude(std::span<const int64_t> excluded, int64_t first, int64_t n, float* row) {
  for (auto it = std::lower_bound(excluded.begin(), excluded.end(), first); it != excluded.end() && *it < first + n;
       ++it)
    row[*it - first] = kMinusInfinity;
}

}  // namespace

StretchedWeights::StretchedWeights(const PanelWeights& whole) : inner_(whole.inner()), columns_(whole.columns()) {
  for (int64_t first = 0; first < columns_; first += kStretch)
    stretches_.push_back(whole.range(first, std::min(kStretch, columns_ - first)));
}

template <class Take>
void StretchedWeights::each_stretch(const float* x, int64_t rows, const float* bias, int parts, BufferPool* pool,
                                    Take&& take) const {
  const auto all = static_cast<int64_t>(stretches_.size());
  const size_t bytes = static_cast<size_t>(parts * rows * kStretch) * sizeof(float);
  const BufferRef memory = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  parallel_parts(parts, [&](int part) {
    float* y = reinterpret_cast<float*>(memory->data()) + part * rows * kStretch;
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; ++i) {
      const PanelWeights& w = stretches_[static_cast<size_t>(i)];
      const int64_t first = i * kStretch;
      w.multiply(x, inner_, rows, y, kStretch, {.bias = bias ? bias + first : nullptr}, pool);
      for (int64_t r = 0; r < rows; ++r) take(part, r, i, w.columns(), y + r * kStretch);
    }
  });
}

void StretchedWeights::top_columns(const float* x, int64_t rows, const float* bias, const TopColumns& top,
                                   BufferPool* pool) const {
  // Of different results that become one logarithm, so many more than wanted are kept.
  constexpr int64_t kSpare = 8;
  const auto stretches = static_cast<int64_t>(stretches_.size());
  const auto parts = static_cast<int>(std::min<int64_t>(parallel_width(), stretches));
  Lists lists(parts, rows, top.count + (top.offsets ? kSpare : 0));
  std::vector<RowSum> sums(top.offsets ? static_cast<size_t>(rows * stretches) : 0);
  each_stretch(x, rows, bias, parts, pool, [&](int part, int64_t r, int64_t i, int64_t n, float* row) {
    if (top.offsets) sums[static_cast<size_t>(r * stretches + i)] = sum_row(row, n);
    exclude(top.excluded, i * kStretch, n, row);
    lists.at(part, r).add(row, n, i * kStretch);
  });
  std::vector<LogSum> log_sums;
  bool sure = true;
  for (int64_t r = 0; r < rows; ++r) {
    Best& best = lists.joined(r);
    if (top.offsets) {
      log_sums.push_back(join_sums(sums.data() + r * stretches, stretches));
      sure = best.to_log_probabilities(log_sums.back(), top.offsets[r], top.count) && sure;
    }
    best.write(top.count, top.values + r * top.count, top.columns + r * top.count);
  }
  if (sure) return;
  Lists exact(parts, rows, top.count);
  each_stretch(x, rows, bias, parts, pool, [&](int part, int64_t r, int64_t i, int64_t n, float* row) {
    subtract_log_sum(row, log_sums[static_cast<size_t>(r)], row, n);
    for (int64_t c = 0; c < n; ++c) row[c] += top.offsets[r];
    exclude(top.excluded, i * kStretch, n, row);
    exact.at(part, r).add(row, n, i * kStretch);
  });
  for (int64_t r = 0; r < rows; ++r)
    exact.joined(r).write(top.count, top.values + r * top.count, top.columns + r * top.count);
}

}  // namespace attune
