#include "runtime/decoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/alignment_store.h"
#include "runtime/past_rows.h"
#include "runtime/rows.h"
#include "runtime/step_scores.h"

namespace attune {
namespace {

// True if the rows are 0 .. count - 1.
bool in_order(std::span<const int32_t> rows, size_t count) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != static_cast<int32_t>(i)) return false;
  return rows.size() == count;
}

Tensor convert(const std::vector<int64_t>& values, DataType type, const Shape& shape, BufferPool* pool) {
  Tensor t = Tensor::allocate(type, shape, pool);
  dispatch<int64_t, int32_t, bool, float, Float16, double>(type, [&]<class T>() {
    T* out = t.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, Float16>) {
        out[i] = Float16(static_cast<float>(values[i]));
      } else {
        out[i] = static_cast<T>(values[i]);
      }
    }
  });
  return t;
}

// As LinearTop takes it.
Tensor tensor_of_request(const TokenRequest& request) {
  std::vector<int64_t> values{static_cast<int64_t>(request.count)};
  values.insert(values.end(), request.excluded.begin(), request.excluded.end());
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// Masks and lengths in the type that the decoder asks for.
Datum mask_value(const PortBinding& b, const Tensor& mask, DataType type, BufferPool* pool) {
  std::vector<int64_t> values = mask.to_int64();
  if (b.role == PortRole::kSourceMask) return convert(values, type, mask.shape(), pool);
  const auto width = static_cast<size_t>(mask.dim(1));
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < mask.dim(0); ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * width);
    lengths.push_back(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(width), int64_t{0}));
  }
  return convert(lengths, type, {mask.dim(0)}, pool);
}

}  // namespace

struct Decoder::Impl {
  // A part with the session that runs it.
  struct Running {
    Running(const DecoderPlans::Part& p, const SessionOptions& options)
        : part(p), session(p.plan, options), inputs(p.plan->inputs().size()) {}
    const DecoderPlans::Part& part;
    Session session;
    std::vector<Datum> inputs, outputs;
    std::vector<bool> wanted;
    std::vector<int32_t> fixed_rows;  // sources of the rows that fixed inputs were set for
  };

  Impl(std::shared_ptr<const DecoderPlans> p, const SessionOptions& options)
      : plans(std::move(p)), first(plans->first(), options) {
    if (plans->two_parts()) second.emplace(plans->next(), options);
    for (size_t s = 0; s < plans->states().size(); ++s) state_uses.push_back(plans->use_of_state(s));
  }

  Running& running() { return steps == 0 || !second ? first : *second; }
  void set_wanted(Running& r) const;
  void continue_rows(std::span<const int32_t> parents);
  void fix(Running& r);
  int64_t past_length() const;
  Datum fixed_value(const PortBinding& b);
  Datum initial_state(size_t s, const ValueType& type, const Dim& batch);
  Tensor tokens(const std::vector<std::vector<int64_t>>& sequences, size_t from, size_t to, const ValueType& type);
  Tensor positions(const Running& r, size_t from, size_t to, const ValueType& type);
  void run(Running& r, const std::vector<std::vector<int64_t>>& sequences, size_t from, size_t to);
  Datum feed(const Running& r, size_t i, const std::vector<std::vector<int64_t>>& sequences, size_t from, size_t to);
  void keep_states(Running& r);
  void look(const Running& r);
  Running& advance(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents);

  std::shared_ptr<const DecoderPlans> plans;
  Running first;
  std::optional<Running> second;
  BufferPool pool;

  EncodedSources sources;
  AlignmentStore alignments;
  AttentionObserver observer;
  size_t steps = 0;
  std::vector<int32_t> row_sources;  // per row of the last step
  PastRows past_rows;                // where their caches lie
  std::vector<RowUse> state_uses;    // by later steps
  std::vector<Datum> states;
  std::vector<bool> follows_source;       // per state: the same for all rows of a source, and never updated
  std::vector<bool> grows;                // per state: an update has come
  const TokenRequest* request = nullptr;  // while a step chooses tokens
  StepScores scores{pool};
};

void Decoder::Impl::set_wanted(Running& r) const {
  const DecoderPorts& ports = r.part.ports;
  r.wanted.assign(r.part.plan->outputs().size(), false);
  r.wanted[ports.logits] = !request;
  if (request) r.wanted[r.part.selection->tokens] = r.wanted[r.part.selection->scores] = true;
  if (!plans->recomputes())
    for (const auto& o : ports.state_outputs)
      if (o) r.wanted[*o] = true;
  if (alignments.active())
    for (const size_t o : ports.others) r.wanted[o] = true;
  for (const AttentionTap& tap : r.part.tapped.taps) {
    if (!observer && (!alignments.active() || tap.kind == AttentionKind::kSelf)) continue;
    r.wanted[tap.weights] = true;
    if (observer) r.wanted[tap.context] = true;
  }
}

// Follows the rows that go on: their sources, and their states.
void Decoder::Impl::continue_rows(std::span<const int32_t> parents) {
  std::vector<int32_t> next(parents.size());
  for (size_t i = 0; i < parents.size(); ++i) next[i] = row_sources[static_cast<size_t>(parents[i])];
  const bool same_sources = next == row_sources;
  row_sources = std::move(next);
  if (!same_sources || !in_order(parents, parents.size())) past_rows.follow(parents, past_length());
  for (size_t s = 0; s < states.size(); ++s) {
    if (states[s].kind() != Datum::Kind::kTensor || state_uses[s] != RowUse::kInOrder) continue;
    if (follows_source[s] && same_sources) continue;
    states[s] = gather_rows(states[s].tensor(), parents, &pool, batch_axis(plans->states()[s].type, first.part.batch));
  }
}

// The positions that caches hold which are read by an index.
int64_t Decoder::Impl::past_length() const {
  for (size_t s = 0; s < states.size(); ++s)
    if (state_uses[s] == RowUse::kPast && states[s].defined()) return states[s].tensor().dim(2);
  return 0;
}

Datum Decoder::Impl::fixed_value(const PortBinding& b) {
  const auto rows = [&](const Tensor& t) { return gather_rows(t, row_sources, &pool); };
  switch (b.role) {
    case PortRole::kMemory:
      return rows(sources.outputs[b.index].tensor());
    case PortRole::kSource:
      return rows(sources.inputs[b.index].tensor());
    default:
      return rows(sources.mask);
  }
}

void Decoder::Impl::fix(Running& r) {
  if (!r.part.hoists || r.fixed_rows == row_sources) return;
  TensorMap values;
  for (size_t i = 0; i < r.part.ports.inputs.size(); ++i) {
    const PortBinding& b = r.part.ports.inputs[i];
    if (!is_fixed(b, plans->states())) continue;
    // What is there once for each source doesn't depend on the rows.
    if (r.part.use_of_input(i) == RowUse::kSource && !r.fixed_rows.empty()) continue;
    values[r.part.plan->inputs()[i].name] = feed(r, i, {}, 0, 0);
  }
  r.session.fix(std::move(values));
  r.fixed_rows = row_sources;
}

// Zeros, with no time: what a first step finds.
Datum Decoder::Impl::initial_state(size_t s, const ValueType& type, const Dim& batch) {
  if (const auto o = plans->states()[s].encoder_output)
    return gather_rows(sources.outputs[*o].tensor(), row_sources, &pool, batch_axis(type, batch));
  Shape shape;
  const size_t axis = state_uses[s] == RowUse::kInOrder ? batch_axis(type, batch) : 0;
  for (int i = 0; i < type.tensor.rank(); ++i) {
    const Dim dim = type.tensor.dim(i);
    const auto known = dim.known() ? dim.constant() : std::nullopt;
    shape.push_back(static_cast<size_t>(i) == axis ? static_cast<int64_t>(row_sources.size()) : known.value_or(0));
  }
  Tensor t = Tensor::allocate(type.tensor.element, shape, &pool);
  if (t.bytes() > 0) std::memset(t.mutable_raw(), 0, t.bytes());
  return t;
}

Tensor Decoder::Impl::tokens(const std::vector<std::vector<int64_t>>& sequences, size_t from, size_t to,
                             const ValueType& type) {
  std::vector<int64_t> values;
  for (const auto& s : sequences)
    values.insert(values.end(), s.begin() + static_cast<std::ptrdiff_t>(from),
                  s.begin() + static_cast<std::ptrdiff_t>(to));
  Shape shape{static_cast<int64_t>(sequences.size())};
  if (type.tensor.rank() != 1) shape.push_back(static_cast<int64_t>(to - from));
  return convert(values, type.tensor.element, shape, &pool);
}

Tensor Decoder::Impl::positions(const Running& r, size_t from, size_t to, const ValueType& type) {
  const auto rows = row_sources.size();
  const bool per_row = type.tensor.rank() == 2 || (type.tensor.rank() == 1 && type.tensor.dim(0) == r.part.batch);
  std::vector<int64_t> values;
  for (size_t row = 0; row < (per_row ? rows : 1); ++row)
    for (size_t p = from; p < to; ++p) values.push_back(static_cast<int64_t>(p));
  Shape shape;
  if (per_row) shape.push_back(static_cast<int64_t>(rows));
  if (type.tensor.rank() == 2 || (!per_row && type.tensor.rank() == 1))
    shape.push_back(static_cast<int64_t>(to - from));
  return convert(values, type.tensor.element, shape, &pool);
}

Datum Decoder::Impl::feed(const Running& r, size_t i, const std::vector<std::vector<int64_t>>& sequences, size_t from,
                          size_t to) {
  const PortBinding& b = r.part.ports.inputs[i];
  const ValueType& type = r.part.plan->inputs()[i].type;
  const auto rows = static_cast<int64_t>(row_sources.size());
  switch (b.role) {
    case PortRole::kTokens:
      return tokens(sequences, from, to, type);
    case PortRole::kPositions:
      return positions(r, from, to, type);
    case PortRole::kTargetMask:
      return convert(std::vector<int64_t>(static_cast<size_t>(rows) * to, 1), type.tensor.element,
                     {rows, static_cast<int64_t>(to)}, &pool);
    case PortRole::kCacheBranch:
      return convert({from > 0}, type.tensor.element, type.tensor.rank() == 0 ? Shape{} : Shape{1}, &pool);
    case PortRole::kSourceMask:
    case PortRole::kSourceLengths:
      return mask_value(b, fixed_value(b).tensor(), type.tensor.element, &pool);
    case PortRole::kMemory:
      if (r.part.use_of_input(i) == RowUse::kSource) return sources.outputs[b.index];
      return fixed_value(b);
    case PortRole::kSource:
      return fixed_value(b);
    case PortRole::kSourceRows:
      if (in_order(row_sources, sources.count)) return {};
      return Tensor::from<int32_t>({static_cast<int64_t>(row_sources.size()), 1}, row_sources);
    case PortRole::kPastRows:
      return past_rows.index(&pool);
    case PortRole::kSelection:
      return request ? tensor_of_request(*request) : Datum();
    case PortRole::kSelectionOffsets:
      if (!request || request->offsets.empty()) return {};
      return Tensor::from<float>({static_cast<int64_t>(request->offsets.size())}, request->offsets);
    case PortRole::kShortlist:
      return Tensor::from<int64_t>({static_cast<int64_t>(scores.scored().size())}, scores.scored());
    case PortRole::kState:
      if (!states[b.index].defined()) return initial_state(b.index, type, r.part.batch);
      return states[b.index];
  }
  return {};
}

void Decoder::Impl::run(Running& r, const std::vector<std::vector<int64_t>>& sequences, size_t from, size_t to) {
  fix(r);
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const PortBinding& b = r.part.ports.inputs[i];
    if (r.part.hoists && is_fixed(b, plans->states())) continue;
    r.inputs[i] = feed(r, i, sequences, from, to);
    // A cache that is given away can grow where it lies.
    if (b.role == PortRole::kState && grows[b.index]) states[b.index] = Datum();
  }
  set_wanted(r);
  r.session.run(r.inputs, r.outputs, r.wanted);
  if (!plans->recomputes()) keep_states(r);
}

void Decoder::Impl::keep_states(Running& r) {
  const bool later = steps > 0;
  for (size_t s = 0; s < states.size(); ++s) {
    const auto o = r.part.ports.state_outputs[s];
    if (!o || !r.outputs[*o].defined()) continue;
    // Merged decoders give an empty tensor for what stays as it is.
    const bool update = r.outputs[*o].tensor().count() > 0 || !states[s].defined();
    if (update) states[s] = std::move(r.outputs[*o]);
    if (later) (update ? grows : follows_source)[s] = true;
    r.outputs[*o] = Datum();
  }
}

void Decoder::Impl::look(const Running& r) {
  std::vector<size_t> rows;
  for (const int32_t row : row_sources) rows.push_back(sources.places.at(static_cast<size_t>(row)));
  const Tensor mask = gather_rows(sources.mask, row_sources, &pool);
  for (const AttentionTap& tap : r.part.tapped.taps)
    observer({tap, false, r.outputs[tap.weights].tensor().to_contiguous(),
              r.outputs[tap.context].tensor().to_contiguous(), rows, mask});
}

Decoder::Decoder(std::shared_ptr<const DecoderPlans> plans, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(plans), options)) {}
Decoder::~Decoder() = default;

void Decoder::start(EncodedSources sources, AlignmentRequest alignments) {
  Impl& d = *impl_;
  d.sources = std::move(sources);
  d.scores.start(std::move(d.sources.allowed), d.first.part.vocabulary);
  d.alignments.start(std::move(alignments), static_cast<size_t>(d.sources.mask.dim(1)));
  d.steps = 0;
  d.row_sources.resize(d.sources.count);
  std::iota(d.row_sources.begin(), d.row_sources.end(), 0);
  const auto& slots = d.plans->states();
  d.past_rows.clear();
  d.states.assign(slots.size(), Datum());
  d.grows.assign(slots.size(), false);
  d.follows_source.assign(slots.size(), false);
  for (size_t s = 0; s < slots.size(); ++s) d.follows_source[s] = !slots[s].updated;
  d.first.fixed_rows.clear();
  if (d.second) d.second->fixed_rows.clear();
}

Decoder::Impl::Running& Decoder::Impl::advance(const std::vector<std::vector<int64_t>>& sequences,
                                               std::span<const int32_t> parents) {
  if (steps > 0) continue_rows(parents);
  Running& r = running();
  const size_t length = sequences[0].size();
  const bool all = steps == 0 || plans->recomputes();
  size_t from = all ? 0 : length - 1;
  for (; r.part.token_width == 1 && from + 1 < length; ++from) run(r, sequences, from, from + 1);
  run(r, sequences, from, length);
  if (alignments.active()) alignments.add(r.part, r.outputs, row_sources.size());
  if (observer) look(r);
  ++steps;
  return r;
}

Scores Decoder::step(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents) {
  Impl& d = *impl_;
  d.request = nullptr;
  Impl::Running& r = d.advance(sequences, parents);
  Datum logits = std::exchange(r.outputs[r.part.ports.logits], Datum());
  return d.scores.all(std::move(logits.tensor()), d.row_sources, r.part.vocabulary);
}

size_t Decoder::selects() const {
  const Impl& d = *impl_;
  const auto& selection = d.steps == 0 || !d.second ? d.first.part.selection : d.second->part.selection;
  return selection && !d.scores.limited() ? selection->vocabulary : 0;
}

BestTokens Decoder::select(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents,
                           const TokenRequest& request) {
  Impl& d = *impl_;
  d.request = &request;
  Impl::Running& r = d.advance(sequences, parents);
  d.request = nullptr;
  const Datum tokens = std::exchange(r.outputs[r.part.selection->tokens], Datum()),
              scores = std::exchange(r.outputs[r.part.selection->scores], Datum());
  return d.scores.best(tokens.tensor(), scores.tensor(), d.row_sources.size());
}

bool Decoder::gives_alignments() const {
  const DecoderPlans::Part& part = impl_->plans->next();
  return !part.ports.others.empty() ||
         std::any_of(part.tapped.taps.begin(), part.tapped.taps.end(),
                     [](const AttentionTap& t) { return t.kind == AttentionKind::kCross; });
}

std::vector<float> Decoder::alignment(size_t step, size_t row) const { return impl_->alignments.mean(step, row); }

std::vector<HeadWeights> Decoder::head_alignments(size_t step, size_t row) const {
  return impl_->alignments.heads(step, row);
}

void Decoder::observe(AttentionObserver observer) { impl_->observer = std::move(observer); }

}  // namespace attune
