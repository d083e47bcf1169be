#include "runtime/monotonic_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "ops/infer/infer.h"
#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// The ports of one monotonic attention.
struct Reader {
  std::string position, next_position;
  int64_t chunk = 1;
  int64_t heads = 1;
};

bool is_monotonic(const Node& node) {
  return node.is("Attention", "ai.attune") && node.attr_string("alignment", "soft") == "monotonic";
}

// Checks that the attentions of a step read the source as a stream does, and finds their ports.
class StepReader {
 public:
  explicit StepReader(const Model& model) : graph_(*model.graph) {
    const Inference types(model);
    for (const Node* node : graph_.topological_order())
      if (is_monotonic(*node)) within([&] { return node->label(); }, [&] { add(*node); });
    if (readers_.empty())
      throw Error(Error::Kind::kUnsupported, "the model has no ai.attune Attention of alignment 'monotonic'");
    for (const Value* input : graph_.inputs())
      if (sources_.contains(std::string(input->name()))) check_uses(*input);
  }

  const std::vector<Reader>& readers() const { return readers_; }
  const std::set<std::string>& sources() const { return sources_; }

 private:
  static void refuse_if(bool condition, std::string_view reason) {
    if (condition) throw Error(Error::Kind::kUnsupported, fmt::format("can't be streamed: {}", reason));
  }

  void add(const Node& node) {
    for (const auto& [input, name] : {std::pair(kAttentionMask, "a mask"),
                                      {kAttentionKeyLengths, "key_lengths"},
                                      {kAttentionPastKey, "a past"},
                                      {kAttentionQueryPosition, "query_position"}})
      refuse_if(node.input(input), fmt::format("it has {}", name));
    const auto window = node.attr_ints("window", {-1, -1});
    refuse_if(node.attr_int("causal", 0) != 0 || window != std::vector<int64_t>{-1, -1}, "it counts positions");
    const Value* query = node.input(kAttentionQuery);
    refuse_if(!query->tensor_type().has_rank() || !query->tensor_type().dim(-2).is(1), "it isn't for one query");
    const Value *key = node.input(kAttentionKey), *value = node.input(kAttentionValue),
                *at = node.input(kAttentionPosition), *next = node.output(kAttentionNextPosition);
    refuse_if(!key || !key->is_graph_input(), "its key isn't an input of the graph");
    refuse_if(value && !value->is_graph_input(), "its value isn't an input of the graph");
    refuse_if(!at || !at->is_graph_input(), "its position isn't an input of the graph");
    refuse_if(!next || !next->is_graph_output(), "its next_position isn't an output of the graph");
    sources_.insert(std::string(key->name()));
    if (value) sources_.insert(std::string(value->name()));
    const auto heads = query->tensor_type().rank() == 4 ? query->tensor_type().dim(1).constant()
                                                        : std::optional(node.attr_int("num_heads", 1));
    refuse_if(!heads, "its number of heads isn't known");
    readers_.push_back({std::string(at->name()), std::string(next->name()), node.attr_int("chunk", 1), *heads});
  }

  static void check_uses(const Value& source) {
    refuse_if(source.is_graph_output(), fmt::format("input '{}' is an output, too", source.name()));
    for (const Use& use : source.uses())
      refuse_if(!is_monotonic(*use.node), fmt::format("{} reads input '{}', too", use.node->label(), source.name()));
  }

  const Graph& graph_;
  std::vector<Reader> readers_;
  std::set<std::string> sources_;
};

// Axis of time of (1, T, D) and (1, G, T, E).
size_t time_axis(const Tensor& t) { return t.rank() - 2; }

// Positions [from, T) of `held` (which may be undefined), and then those of `added`.
Tensor joined(const Tensor& held, int64_t from, const Tensor& added) {
  const size_t axis = time_axis(added);
  const int64_t kept = held.defined() ? held.dim(axis) - from : 0, more = added.dim(axis);
  Shape shape = added.shape();
  shape[axis] = kept + more;
  Tensor out = Tensor::allocate(added.type(), shape);
  const size_t row = storage_bytes(added.type(), static_cast<size_t>(added.dim(axis + 1)));
  const int64_t heads = axis == 2 ? added.dim(1) : 1;
  for (int64_t g = 0; g < heads; ++g) {
    std::byte* to = out.mutable_raw() + static_cast<size_t>(g * (kept + more)) * row;
    if (kept > 0)
      std::memcpy(to, held.raw() + static_cast<size_t>(g * (from + kept) + from) * row,
                  static_cast<size_t>(kept) * row);
    if (more > 0)
      std::memcpy(to + static_cast<size_t>(kept) * row, added.raw() + static_cast<size_t>(g * more) * row,
                  static_cast<size_t>(more) * row);
  }
  return out;
}

// Zeros of the type of an input; sizes that aren't known are 1.
Tensor zeros_of(const Plan::Port& port) {
  const TensorType& type = port.type.tensor;
  Shape shape;
  for (int axis = 0; axis < type.rank(); ++axis) shape.push_back(type.dim(axis).constant().value_or(1));
  Tensor zeros = Tensor::allocate(type.element, shape);
  std::memset(zeros.mutable_raw(), 0, zeros.bytes());
  return zeros;
}

}  // namespace

struct MonotonicStream::Impl {
  // What streams of one model share.
  struct Decoder {
    std::vector<Reader> readers;
    std::set<std::string> sources;
    MonotonicStreamOptions options;
    std::shared_ptr<const Plan> plan;
  };

  explicit Impl(std::shared_ptr<const Decoder> d)
      : decoder(std::move(d)), session(decoder->plan, decoder->options.session) {
    for (const Reader& r : decoder->readers) positions.emplace_back(static_cast<size_t>(r.heads), 0);
    for (const auto& [input, output] : decoder->options.states) {
      const auto port = decoder->plan->find_input(input);
      if (!port) invalid(fmt::format("state '{}': the model has no such input", input));
      if (!decoder->plan->find_output(output))
        invalid(fmt::format("state '{}': the model has no output '{}'", input, output));
      states[input] = zeros_of(decoder->plan->inputs()[*port]);
    }
  }

  int64_t read() const { return first + held_length; }
  // The first position that a step may still read.
  int64_t first_needed() const {
    int64_t needed = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < positions.size(); ++i)
      for (const int64_t p : positions[i]) needed = std::min(needed, p - decoder->readers[i].chunk + 1);
    return std::max(needed, first);
  }

  void append(const TensorMap& piece);
  std::optional<TensorMap> run();
  // Takes over where the heads stopped. Gives true if one of them has found nothing.
  bool take_positions(const TensorMap& outputs);

  std::shared_ptr<const Decoder> decoder;
  Session session;
  std::map<std::string, Tensor> held;  // by source input: positions [first, first + held_length)
  int64_t first = 0, held_length = 0;
  std::vector<std::vector<int64_t>> positions;  // by reader and head: where the next step starts
  TensorMap states;
  std::optional<TensorMap> waiting;  // inputs of the step that waits
  bool finished = false;
};

void MonotonicStream::Impl::append(const TensorMap& piece) {
  if (finished) invalid("a piece after the end of the source");
  std::optional<int64_t> length;
  for (const std::string& name : decoder->sources) {
    const auto it = piece.find(name);
    if (it == piece.end()) invalid(fmt::format("piece: input '{}' is missing", name));
    const Tensor& t = it->second.tensor();
    const Plan::Port& port = decoder->plan->inputs()[*decoder->plan->find_input(name)];
    if (t.type() != port.type.tensor.element || (t.rank() != 3 && t.rank() != 4) || t.dim(0) != 1)
      invalid(fmt::format("piece: input '{}': expected {} of batch 1, got {} {}", name, port.type.to_string(),
                          attune::name(t.type()), t.shape().to_string()));
    const int64_t n = t.dim(time_axis(t));
    if (length.value_or(n) != n)
      invalid(fmt::format("piece: input '{}': expected {} positions, got {}", name, *length, n));
    length = n;
    if (const auto before = held.find(name); before != held.end()) {
      Shape expected = before->second.shape();
      expected[time_axis(t)] = n;
      if (!(expected == t.shape()))
        invalid(
            fmt::format("piece: input '{}': expected {}, got {}", name, expected.to_string(), t.shape().to_string()));
    }
  }
  for (const auto& [name, value] : piece)
    if (!decoder->sources.contains(name)) invalid(fmt::format("piece: input '{}' is no source", name));
  const int64_t dropped = std::min(first_needed() - first, held_length);
  TensorMap fixed;
  for (const std::string& name : decoder->sources) {
    Tensor& window = held[name];
    window = joined(window, dropped, piece.at(name).tensor().to_contiguous());
    fixed[name] = window;
  }
  first += dropped;
  held_length += *length - dropped;
  session.fix(std::move(fixed));
}

bool MonotonicStream::Impl::take_positions(const TensorMap& outputs) {
  bool none = false;
  // What comes after an attention that has to read on may have seen a wrong context: it starts anew.
  for (size_t i = 0; i < positions.size() && (finished || !none); ++i) {
    const auto next = outputs.at(decoder->readers[i].next_position).tensor().values<int64_t>();
    if (next.size() != positions[i].size())
      throw Error(Error::Kind::kInternal, fmt::format("{} positions for {} heads", next.size(), positions[i].size()));
    // A head that found nothing goes on behind what it has seen; one that found a position finds it again.
    for (size_t h = 0; h < next.size(); ++h) {
      positions[i][h] = first + next[h];
      none = none || next[h] == held_length;
    }
  }
  return none;
}

std::optional<TensorMap> MonotonicStream::Impl::run() {
  if (held.empty()) {
    if (!finished) return std::nullopt;
    invalid("the source has no piece");
  }
  TensorMap inputs = *waiting;
  for (const auto& [name, value] : states) inputs.emplace(name, value);
  for (size_t i = 0; i < positions.size(); ++i) {
    std::vector<int64_t> relative = positions[i];
    for (int64_t& p : relative) p -= first;
    inputs[decoder->readers[i].position] =
        Tensor::from<int64_t>({1, static_cast<int64_t>(relative.size())}, std::span<const int64_t>(relative));
  }
  TensorMap outputs = session.run(std::move(inputs));
  if (take_positions(outputs) && !finished) return std::nullopt;
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::vector<int64_t>& at = positions[i];
    outputs[decoder->readers[i].next_position] =
        Tensor::from<int64_t>({1, static_cast<int64_t>(at.size())}, std::span<const int64_t>(at));
  }
  for (const auto& [input, output] : decoder->options.states) states[input] = outputs.at(output);
  waiting.reset();
  return outputs;
}

MonotonicStream::MonotonicStream(const Model& step, const MonotonicStreamOptions& options) {
  const StepReader reader(step);
  auto decoder = std::make_shared<Impl::Decoder>();
  decoder->readers = reader.readers();
  decoder->sources = reader.sources();
  decoder->options = options;
  decoder->plan = Plan::compile(step, {.fixed_inputs = reader.sources(), .kernels = options.kernels});
  impl_ = std::make_unique<Impl>(std::move(decoder));
}

MonotonicStream::MonotonicStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MonotonicStream::~MonotonicStream() = default;
MonotonicStream::MonotonicStream(MonotonicStream&&) noexcept = default;
MonotonicStream& MonotonicStream::operator=(MonotonicStream&&) noexcept = default;
MonotonicStream MonotonicStream::replica() const { return MonotonicStream(std::make_unique<Impl>(impl_->decoder)); }

void MonotonicStream::append(const TensorMap& piece) { impl_->append(piece); }
void MonotonicStream::finish() { impl_->finished = true; }

std::optional<TensorMap> MonotonicStream::step(TensorMap inputs) {
  if (impl_->waiting) invalid("a step waits for more of the source: resume() goes on with it");
  impl_->waiting = std::move(inputs);
  try {
    return impl_->run();
  } catch (...) {
    impl_->waiting.reset();
    throw;
  }
}

std::optional<TensorMap> MonotonicStream::resume() {
  if (!impl_->waiting) invalid("no step waits");
  return impl_->run();
}

int64_t MonotonicStream::read() const { return impl_->read(); }
int64_t MonotonicStream::first_held() const { return impl_->first; }
size_t MonotonicStream::peak_bytes() const { return impl_->session.pool().peak_bytes(); }

bool MonotonicStream::at_end() const {
  const auto& all = impl_->positions;
  return impl_->finished && std::all_of(all.begin(), all.end(), [&](const auto& heads) {
           return std::all_of(heads.begin(), heads.end(), [&](int64_t p) { return p == impl_->read(); });
         });
}

}  // namespace attune
