#include "runtime/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "runtime/alignment_store.h"
#include "runtime/past_rows.h"
#include "runtime/rows.h"
#include "runtime/shortlist.h"

namespace attune {
namespace {

struct Interface {
  Interface(const Model& model, size_t own_outputs) {
    for (const Value* v : model.graph->inputs())
      inputs.push_back({std::string(v->name()), v->type(), v->default_value() != nullptr});
    for (const Value* v : model.graph->outputs().first(own_outputs))
      outputs.push_back({std::string(v->name()), v->type()});
  }
  std::vector<Plan::Port> inputs, outputs;
};

// The axis on which a type has the symbol `name`.
std::optional<int> axis_of(const ValueType& type, const std::string& name) {
  for (int i = 0; i < type.tensor.rank(); ++i)
    if (type.tensor.dim(i).known() && type.tensor.dim(i).as_symbol() == name) return i;
  return std::nullopt;
}

// Exporters call the length of the encoder's input (in its mask) and that of its output by one name in decoders, also
// where convolutions make the output shorter. Where the encoder's types say so, the input's length gets another name.
void untie_lengths(Graph& decoder, const DecoderPorts& ports, const DecoderGraph& encoder) {
  const auto memory_size = [&](const std::string& symbol) {
    for (size_t m = 0; m < ports.inputs.size(); ++m)
      if (ports.inputs[m].role == PortRole::kMemory)
        if (const auto axis = axis_of(decoder.inputs()[m]->type(), symbol))
          return encoder.outputs[ports.inputs[m].index].type.tensor.dim(*axis);
    return Dim();
  };
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    if (ports.inputs[i].role != PortRole::kSource) continue;
    Value& input = *decoder.inputs()[i];
    const TensorType& source = encoder.inputs[ports.inputs[i].index].type.tensor;
    ValueType type = input.type();
    if (!type.tensor.shape || type.tensor.rank() != source.rank()) continue;
    for (int axis = 0; axis < type.tensor.rank(); ++axis) {
      Dim& dim = (*type.tensor.shape)[static_cast<size_t>(axis)];
      const std::string symbol = dim.known() ? dim.as_symbol() : std::string();
      const Dim memory = symbol.empty() ? Dim() : memory_size(symbol);
      if (memory.known() && source.dim(axis).known() && !(memory == source.dim(axis)))
        dim = Dim::symbol(symbol + "_of_" + std::string(input.name()));
    }
    input.set_type(std::move(type));
  }
}

// The axis of a state that counts rows: the one of the size that the tokens have there, else the first.
size_t batch_axis(const ValueType& type, const Dim& batch) {
  for (int i = 0; i < type.tensor.rank(); ++i)
    if (type.tensor.dim(i) == batch) return static_cast<size_t>(i);
  return 0;
}

bool is_fixed(const PortBinding& b, const std::vector<StateSlot>& states) {
  switch (b.role) {
    case PortRole::kMemory:
    case PortRole::kSource:
    case PortRole::kSourceMask:
    case PortRole::kSourceLengths:
    case PortRole::kShortlist:
      return true;
    case PortRole::kState:
      return !states[b.index].updated;
    default:
      return false;
  }
}

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

}  // namespace

// ---- plans

DecoderPlans::DecoderPlans(const DecoderModels& models, const DecoderGraph& encoder, const KernelOptions& kernels) {
  const auto assign = [&](Part& part, Model& model, const AttentionTaps& tapped) {
    const Interface ports(model, model.graph->outputs().size() - tapped.added_outputs);
    part.ports = assign_ports({ports.inputs, ports.outputs}, encoder, states_);
    untie_lengths(*model.graph, part.ports, encoder);
    part.tapped = tapped;
    if (!models.shortlist && kernels.pack_weights) part.selection = add_selection(model, part.ports.logits);
    if (part.selection) part.ports.inputs.push_back({PortRole::kExcluded});
    const auto shortened = models.shortlist ? shorten_logits(*model.graph, part.ports.logits) : std::nullopt;
    if (!shortened) return;
    part.vocabulary = shortened->vocabulary;
    part.ports.inputs.push_back({PortRole::kShortlist});
  };
  assign(first_, *models.first, models.first_taps);
  if (models.with_past) assign(next_, *models.with_past, models.with_past_taps);
  if (models.with_past) {
    index_rows(next_, *models.with_past->graph);
  } else {
    index_rows(first_, *models.first->graph);
  }
  compile(first_, *models.first, !models.with_past, kernels);
  if (models.with_past) compile(next_, *models.with_past, true, kernels);
  const auto& inputs = first_.ports.inputs;
  recomputes_ = !models.with_past && std::none_of(inputs.begin(), inputs.end(),
                                                  [](const PortBinding& b) { return b.role == PortRole::kState; });
}

// Lets what runs the later steps read the memory and caches by an index of rows.
void DecoderPlans::index_rows(Part& part, Graph& decoder) const {
  std::vector<bool> candidates;
  for (const PortBinding& b : part.ports.inputs)
    candidates.push_back(b.role == PortRole::kMemory ||
                         (b.role == PortRole::kState && !states_[b.index].encoder_output));
  part.rows = add_row_inputs(decoder, candidates);
  for (size_t i = candidates.size(); i < decoder.inputs().size(); ++i)
    part.ports.inputs.push_back(
        {decoder.inputs()[i]->name() == part.rows.source_rows ? PortRole::kSourceRows : PortRole::kPastRows});
}

RowUse DecoderPlans::use_of_state(size_t s) const {
  const auto& inputs = next().ports.inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == PortRole::kState && inputs[i].index == s) return next().use_of_input(i);
  return RowUse::kInOrder;
}

void DecoderPlans::compile(Part& part, Model& model, bool hoist, const KernelOptions& kernels) {
  part.ports.state_outputs.resize(states_.size());
  PlanOptions options;
  options.kernels = kernels;
  for (size_t i = 0; i < part.ports.inputs.size(); ++i) {
    const Value& input = *model.graph->inputs()[i];
    if (hoist && is_fixed(part.ports.inputs[i], states_)) options.fixed_inputs.emplace(input.name());
    if (part.ports.inputs[i].role != PortRole::kTokens) continue;
    const TensorType& type = input.tensor_type();
    part.token_width = type.rank() == 1 || (type.rank() == 2 && type.dim(1).is(1)) ? 1 : 0;
    part.batch = type.dim(0);
  }
  part.hoists = hoist;
  part.plan = Plan::compile(model, options);
}

// ---- decoding

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
  Scores scores(Running& r);
  Scores spread(const Running& r, Scores scores);

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
  std::vector<bool> follows_source;                // per state: the same for all rows of a source, and never updated
  std::vector<bool> grows;                         // per state: an update has come
  const std::vector<int64_t>* excluded = nullptr;  // while a step chooses tokens
  std::vector<int64_t> chosen;
  Tensor logits;
  std::vector<float> converted, spread_scores;
  std::vector<int64_t> scored;  // tokens of a shortlist: those of all sources
};

void Decoder::Impl::set_wanted(Running& r) const {
  const DecoderPorts& ports = r.part.ports;
  r.wanted.assign(r.part.plan->outputs().size(), false);
  r.wanted[ports.logits] = !excluded;
  if (excluded) r.wanted[r.part.selection->output] = true;
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
    case PortRole::kExcluded:
      if (!excluded || excluded->empty()) return {};
      return Tensor::from<int64_t>({static_cast<int64_t>(excluded->size())}, *excluded);
    case PortRole::kShortlist:
      return Tensor::from<int64_t>({static_cast<int64_t>(scored.size())}, scored);
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

Scores Decoder::Impl::scores(Running& r) {
  logits = r.outputs[r.part.ports.logits].tensor().to_contiguous(&pool);
  r.outputs[r.part.ports.logits] = Datum();
  const size_t rows = row_sources.size();
  const auto vocabulary = static_cast<size_t>(logits.shape().back());
  const size_t steps_given = static_cast<size_t>(logits.count()) / std::max<size_t>(1, rows * vocabulary);
  if (logits.type() == DataType::kFloat && steps_given == 1 && logits.unique())
    return {{logits.mutable_data<float>(), rows * vocabulary}, vocabulary};
  converted.resize(rows * vocabulary);
  dispatch<float, Float16, BFloat16, double>(logits.type(), [&]<class T>() {
    const T* from = logits.data<T>();
    for (size_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < vocabulary; ++v)
        converted[row * vocabulary + v] = static_cast<float>(from[((row + 1) * steps_given - 1) * vocabulary + v]);
  });
  return {converted, vocabulary};
}

// Scores of all tokens: those that the row's source doesn't allow are impossible.
Scores Decoder::Impl::spread(const Running& r, Scores from) {
  const size_t vocabulary = r.part.vocabulary > 0 ? r.part.vocabulary : from.vocabulary;
  spread_scores.assign(row_sources.size() * vocabulary, -std::numeric_limits<float>::infinity());
  for (size_t row = 0; row < row_sources.size(); ++row) {
    size_t column = 0;
    for (const int64_t token : sources.allowed[static_cast<size_t>(row_sources[row])]) {
      const auto id = static_cast<size_t>(token);
      if (id >= vocabulary) break;
      while (r.part.vocabulary > 0 && scored[column] != token) ++column;
      spread_scores[row * vocabulary + id] = from.row(row)[r.part.vocabulary > 0 ? column : id];
    }
  }
  return {spread_scores, vocabulary};
}

Decoder::Decoder(std::shared_ptr<const DecoderPlans> plans, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(plans), options)) {}
Decoder::~Decoder() = default;

void Decoder::start(EncodedSources sources, AlignmentRequest alignments) {
  Impl& d = *impl_;
  d.sources = std::move(sources);
  d.scored.clear();
  for (const auto& allowed : d.sources.allowed) d.scored.insert(d.scored.end(), allowed.begin(), allowed.end());
  std::sort(d.scored.begin(), d.scored.end());
  d.scored.erase(std::unique(d.scored.begin(), d.scored.end()), d.scored.end());
  if (const size_t vocabulary = d.first.part.vocabulary; vocabulary > 0)
    std::erase_if(d.scored, [&](int64_t token) { return static_cast<size_t>(token) >= vocabulary; });
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
  d.excluded = nullptr;
  Impl::Running& r = d.advance(sequences, parents);
  return d.sources.allowed.empty() ? d.scores(r) : d.spread(r, d.scores(r));
}

size_t Decoder::selects() const {
  const Impl& d = *impl_;
  const auto& selection = d.steps == 0 || !d.second ? d.first.part.selection : d.second->part.selection;
  return selection && d.sources.allowed.empty() ? selection->vocabulary : 0;
}

std::span<const int64_t> Decoder::select(const std::vector<std::vector<int64_t>>& sequences,
                                         std::span<const int32_t> parents, const std::vector<int64_t>& excluded) {
  Impl& d = *impl_;
  d.excluded = &excluded;
  Impl::Running& r = d.advance(sequences, parents);
  d.excluded = nullptr;
  const Tensor best = std::exchange(r.outputs[r.part.selection->output], Datum()).tensor();
  const size_t rows = d.row_sources.size(), positions = static_cast<size_t>(best.count()) / std::max<size_t>(rows, 1);
  d.chosen.clear();
  for (size_t row = 0; row < rows; ++row) d.chosen.push_back(best.data<int64_t>()[(row + 1) * positions - 1]);
  return d.chosen;
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
