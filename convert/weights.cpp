#include "convert/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "convert/raise_opset.h"
#include "graph/error.h"
#include "ops/kernel.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

// Smaller matrices stay as they are: they are neither much to store nor to read.
constexpr int64_t kSmall = 1024;

// A matrix as one kind of user reads it.
struct Weight {
  Value* value;
  size_t channel_axis;  // each index of it has scales of its own: outputs of a product, rows of a table
  std::vector<Use> uses;
  bool sensitive = false;
};

bool is_matrix(const Value* v) {
  const Tensor* t = v ? v->constant() : nullptr;
  return t && t->type() == DataType::kFloat && t->rank() == 2 && t->count() >= kSmall;
}

// --- sensitive products

bool is_ours(const Node& n, std::string_view type) { return n.is(type, "ai.attune"); }

// Its result isn't bounded by subtracting a mean: the residual stream of such models grows from layer to layer.
bool is_rms_normalization(const Node& n) {
  return (is_ours(n, "ResidualNormalization") && n.attr_string("kind", "") == "rms") ||
         n.type() == "RMSNormalization" || n.type() == "SimplifiedLayerNormalization" ||
         n.type() == "SkipSimplifiedLayerNormalization";
}

bool is_activation(const Node& n) {
  static constexpr std::array<std::string_view, 7> kTypes = {"Relu",      "Gelu", "FastGelu", "BiasGelu",
                                                             "QuickGelu", "Silu", "Swish"};
  return std::find(kTypes.begin(), kTypes.end(), n.type()) != kTypes.end() ||
         (is_ours(n, "Linear") && n.attr_string("activation", "none") != "none");
}

// What an activation gave, perhaps times a gate.
bool is_activated(const Value* v, int depth = 0) {
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > 3) return false;
  if (is_activation(*n)) return true;
  if (n->is("Mul") || n->is("Dropout") || n->is("Identity") || n->is("Cast"))
    return std::any_of(n->inputs().begin(), n->inputs().end(),
                       [&](const Value* input) { return is_activated(input, depth + 1); });
  return false;
}

// --- who reads a matrix

class WeightFinder {
 public:
  explicit WeightFinder(const Graph& graph) {
    graph.for_each_node([&](Node& n) { rms_ = rms_ || is_rms_normalization(n); });
    graph.for_each_node([&](Node& n) { look_at(n); });
  }
  const std::vector<Weight>& found() const { return found_; }

 private:
  void look_at(Node& n) {
    if (is_ours(n, "Linear")) {
      add(n, 1, n.attr_int("transposed", 0) != 0 ? 0 : 1);
    } else if (is_ours(n, "Attention")) {
      for (const size_t i : {kAttentionQueryWeight, kAttentionKeyWeight, kAttentionValueWeight}) add(n, i, 1);
    } else if (n.is("MatMul")) {
      add(n, 1, 1);
    } else if (n.is("Gemm")) {
      add(n, 1, n.attr_int("transB", 0) != 0 ? 0 : 1);
    } else if (n.is("Gather") && n.attr_int("axis", 0) == 0) {
      add(n, 0, 0);
    } else if (is_ours(n, "PositionEmbedding")) {
      add(n, 1, 0);
    }
  }

  void add(Node& n, size_t input, size_t channel_axis) {
    if (!is_matrix(n.input(input))) return;
    const auto key = std::pair<const Value*, size_t>(n.input(input), channel_axis);
    const auto [it, fresh] = positions_.emplace(key, found_.size());
    if (fresh) found_.push_back({n.input(input), channel_axis, {}, false});
    Weight& w = found_[it->second];
    w.uses.push_back({&n, input});
    w.sensitive = w.sensitive || (rms_ && input == 1 && is_activated(n.input(0)));
  }

  bool rms_ = false;
  std::vector<Weight> found_;  // in the order of the nodes
  std::map<std::pair<const Value*, size_t>, size_t> positions_;
};

// --- storage

Tensor to_16_bit(const Tensor& w, DataType type) {
  Tensor out = Tensor::allocate(type, w.shape());
  parallel_items(w.dim(0), w.dim(1), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * w.dim(1), count = (end - begin) * w.dim(1);
    narrow(type, w.data<float>() + first, out.mutable_raw() + 2 * first, count);
  });
  return out;
}

bool fits_float16(const Tensor& w) {
  constexpr float kLargest = 65504.0F;
  return std::all_of(w.data<float>(), w.data<float>() + w.count(), [](float x) { return std::abs(x) <= kLargest; });
}

// The scale for which integers of [low, high] come closest to the `count` values, in the mean square; candidates from
// the one that just holds the largest value down to `least` times that.
float best_scale(const float* x, int64_t count, float low, float high, float least) {
  float lowest = 0, highest = 0;
  for (int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, x[i]);
    highest = std::max(highest, x[i]);
  }
  const float all = std::max(lowest / low, highest / high);
  if (!(all > 0) || !std::isfinite(all)) return 1.0F;
  constexpr int kSteps = 12;
  float best = all;
  double best_error = INFINITY;
  for (int step = 0; step <= (least < 1 ? kSteps : 0); ++step) {
    const float scale = all * (1 - (1 - least) * static_cast<float>(step) / kSteps), inverse = 1 / scale;
    float error = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float q = std::clamp(std::nearbyint(x[i] * inverse), low, high);
      const float d = x[i] - q * scale;
      error += d * d;
    }
    if (error < best_error) {
      best_error = error;
      best = scale;
    }
  }
  return best;
}

struct Quantized {
  Tensor values, scales;
};

// Rounds `count` values to integers of [low, high] and gives their scale.
float round_to(const float* x, int64_t count, float low, float high, float least, int8_t* to) {
  const float scale = best_scale(x, count, low, high, least);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(std::clamp(std::nearbyint(x[i] / scale), low, high));
  return scale;
}

// Calls f(channel, its values side by side, integers to be set) for each index of `axis`; gives all integers in the
// layout of `w`.
template <class F>
std::vector<int8_t> for_each_channel(const Tensor& w, size_t axis, F&& f) {
  const int64_t channels = w.dim(axis), count = w.dim(1 - axis);
  const int64_t channel = axis == 0 ? count : 1, along = axis == 0 ? 1 : channels;
  std::vector<int8_t> integers(static_cast<size_t>(w.count()));
  constexpr int64_t kTogether = 16;  // channels that lie beside each other are read by cache lines
  parallel_items((channels + kTogether - 1) / kTogether, 16 * kTogether * count, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(kTogether * count));
    std::vector<int8_t> rounded(values.size());
    for (int64_t first = begin * kTogether; first < std::min(channels, end * kTogether); first += kTogether) {
      const int64_t n = std::min(kTogether, channels - first);
      const float* from = w.data<float>() + first * channel;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < n; ++c) values[static_cast<size_t>(c * count + i)] = from[c * channel + i * along];
      for (int64_t c = 0; c < n; ++c) f(first + c, values.data() + c * count, rounded.data() + c * count);
      int8_t* to = integers.data() + first * channel;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < n; ++c) to[c * channel + i * along] = rounded[static_cast<size_t>(c * count + i)];
    }
  });
  return integers;
}

// One scale for each index of `axis`.
Quantized to_int8(const Tensor& w, size_t axis) {
  const int64_t count = w.dim(1 - axis);
  Quantized q{Tensor::allocate(DataType::kInt8, w.shape()), Tensor::allocate(DataType::kFloat, {w.dim(axis)})};
  float* scales = q.scales.mutable_data<float>();
  const auto integers = for_each_channel(
      w, axis, [&](int64_t c, const float* x, int8_t* to) { scales[c] = round_to(x, count, -127, 127, 1, to); });
  std::copy(integers.begin(), integers.end(), q.values.mutable_data<int8_t>());
  return q;
}

// One scale for each index of `axis` and each group of `group` along the other axis.
Quantized to_int4(const Tensor& w, size_t axis, int64_t group) {
  const int64_t channels = w.dim(axis), count = w.dim(1 - axis), groups = (count + group - 1) / group;
  Quantized q{Tensor::allocate(DataType::kInt4, w.shape()),
              Tensor::allocate(DataType::kFloat, axis == 0 ? Shape{channels, groups} : Shape{groups, channels})};
  float* scales = q.scales.mutable_data<float>();
  const auto integers = for_each_channel(w, axis, [&](int64_t c, const float* x, int8_t* to) {
    for (int64_t g = 0; g < groups; ++g)
      scales[axis == 0 ? c * groups + g : g * channels + c] =
          round_to(x + g * group, std::min(group, count - g * group), -8, 7, 0.75F, to + g * group);
  });
  auto* packed = reinterpret_cast<uint8_t*>(q.values.mutable_raw());
  std::fill_n(packed, q.values.bytes(), uint8_t{0});
  for (size_t i = 0; i < integers.size(); ++i)
    packed[i / 2] = static_cast<uint8_t>(packed[i / 2] | ((integers[i] & 15) << (i % 2 * 4)));
  return q;
}

// Adds the constants and the node that gives `w` from them.
class Storage {
 public:
  explicit Storage(const WeightsOptions& options) : options_(options) {}

  Value* store(const Weight& w) {
    const bool integers = options_.type == WeightsType::kInt8 || options_.type == WeightsType::kInt4;
    const Tensor tensor = *w.value->constant();
    Graph& graph = *w.value->graph();
    std::vector<Value*> inputs;
    Attributes attributes;
    if (!integers || w.sensitive) {
      const bool brain = options_.type == WeightsType::kBFloat16;
      if (!brain && !fits_float16(tensor)) return nullptr;
      inputs = {graph.add_constant(to_16_bit(tensor, brain ? DataType::kBFloat16 : DataType::kFloat16), name(w, ""))};
      attributes["to"] = static_cast<int64_t>(DataType::kFloat);
    } else {
      const bool int8 = options_.type == WeightsType::kInt8;
      const Quantized q = int8 ? to_int8(tensor, w.channel_axis) : to_int4(tensor, w.channel_axis, options_.group);
      inputs = {graph.add_constant(q.values, name(w, "_quantized")), graph.add_constant(q.scales, name(w, "_scale"))};
      attributes["axis"] = static_cast<int64_t>(int8 ? w.channel_axis : 1 - w.channel_axis);
      if (!int8) attributes["block_size"] = options_.group;
    }
    const char* op = inputs.size() == 1 ? "Cast" : "DequantizeLinear";
    Node* node = graph.add_node("", op, inputs, 1, std::move(attributes));
    node->output()->set_type(w.value->type());
    return node->output();
  }

 private:
  static std::string name(const Weight& w, const char* suffix) {
    return w.value->name().empty() ? std::string() : fmt::format("{}_{}{}", w.value->name(), w.channel_axis, suffix);
  }

  const WeightsOptions& options_;
};

// Linear takes halves as they are: hosts fold what a Cast makes of a constant.
Value* for_use(Value* narrow, const Use& use) {
  const Node& widens = *narrow->producer();
  return widens.is("Cast") && is_ours(*use.node, "Linear") ? widens.input(0) : narrow;
}

int64_t needed_opset(WeightsType type) {
  switch (type) {
    case WeightsType::kUnchanged:
    case WeightsType::kFloat16:
      return 0;
    case WeightsType::kBFloat16:
    case WeightsType::kInt8:
      return 13;
    case WeightsType::kInt4:
      return 21;
  }
  return 0;
}

}  // namespace

WeightsType weights_type_from_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, WeightsType>, 4> kNames = {
      {{"float16", WeightsType::kFloat16},
       {"bfloat16", WeightsType::kBFloat16},
       {"int8", WeightsType::kInt8},
       {"int4", WeightsType::kInt4}}};
  for (const auto& [known, type] : kNames)
    if (name == known) return type;
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("weights type '{}': expected float16, bfloat16, int8 or int4", name));
}

std::string_view activations_of(WeightsType type) {
  return type == WeightsType::kInt8 || type == WeightsType::kInt4 ? "int8" : "int16";
}

double rounding_tolerance(WeightsType type) {
  switch (type) {
    case WeightsType::kUnchanged:
      return 1e-4;
    case WeightsType::kFloat16:
      return 1e-2;
    case WeightsType::kBFloat16:
      return 5e-2;
    case WeightsType::kInt8:
      return 0.25;
    case WeightsType::kInt4:
      return 1.0;
  }
  return 0;
}

StoredWeights store_weights(Model& model, const WeightsOptions& options) {
  StoredWeights result;
  if (options.type == WeightsType::kUnchanged) return result;
  if (options.group != 32 && options.group != 64 && options.group != 128)
    throw Error(Error::Kind::kInvalidArgument, fmt::format("weights group {}: expected 32, 64 or 128", options.group));
  const WeightFinder finder(*model.graph);
  if (finder.found().empty()) return result;
  raise_opset(model, needed_opset(options.type));
  Storage storage(options);
  const bool integers = options.type == WeightsType::kInt8 || options.type == WeightsType::kInt4;
  for (const Weight& w : finder.found()) {
    Value* narrow = storage.store(w);
    if (!narrow) continue;
    for (const Use& use : w.uses) use.node->set_input(use.index, for_use(narrow, use));
    ++result.count;
    result.sensitive += integers && w.sensitive ? 1 : 0;
  }
  model.graph->erase_unused();
  model.graph->sort();
  if (options.rounded_activations && result.count > 0) {
    std::string& allowed = model.metadata[std::string(kActivationsKey)];
    if (allowed != "int8") allowed = activations_of(options.type);
  }
  return result;
}

}  // namespace attune
