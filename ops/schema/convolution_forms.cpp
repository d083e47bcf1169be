#include "ops/schema/convolution_forms.h"

#include <array>

#include "ops/schema/node_form.h"

namespace attune {
namespace {

constexpr const char* kBlocked = "com.microsoft.nchwc";

int64_t round_up(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

const Tensor& weights_of(const Node& conv) {
  const Tensor* w = conv.input(1) ? conv.input(1)->constant() : nullptr;
  if (!w || w->rank() != 4 || w->type() != DataType::kFloat) refuse("weights that aren't a constant of rank 4");
  return *w;
}

// Channels in a block as far as this node shows it; 0 if it doesn't.
int64_t shown_block(const Node& node) {
  constexpr std::array<int64_t, 2> kSizes{8, 16};
  const auto only = [&](auto&& fits) {
    const bool small = fits(kSizes[0]), large = fits(kSizes[1]);
    return small == large ? 0 : small ? kSizes[0] : kSizes[1];
  };
  if (node.is("ReorderOutput", kBlocked)) {
    const Node* conv = node.input(0) ? node.input(0)->producer() : nullptr;
    if (!conv || !conv->is("Conv", kBlocked)) return 0;
    const int64_t held = weights_of(*conv).dim(0), channels = node.attr_int("channels", 0);
    return only([&](int64_t block) { return round_up(channels, block) == held; });
  }
  if (!node.is("Conv", kBlocked)) return 0;
  const Tensor& w = weights_of(node);
  return only([&](int64_t block) { return w.dim(0) % block == 0 && (w.dim(1) < block || w.dim(1) % block == 0); });
}

int64_t block_of(const Graph& graph) {
  for (const auto& node : graph.nodes())
    if (const int64_t block = shown_block(*node)) return block;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 16;
#endif
}

// Weights of `shape` (O, I, H, W) out of blocks. Those with whole blocks of input channels hold
// O/B x I/B x H x W x B(in) x B(out), others O/B x I x H x W x B.
Tensor unblocked(const Tensor& w, int64_t block) {
  const int64_t outputs = w.dim(0), channels = w.dim(1), taps = w.dim(2) * w.dim(3);
  if (outputs % block != 0) refuse(fmt::format("{} output channels in blocks of {}", outputs, block));
  const int64_t inner = channels % block == 0 ? block : 1;  // input channels that lie together
  Tensor result = Tensor::allocate(DataType::kFloat, w.shape());
  const float* from = w.data<float>();
  float* to = result.mutable_data<float>();
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t group = (o / block * (channels / inner) + i / inner) * taps + t;
        to[(o * channels + i) * taps + t] = from[(group * inner + i % inner) * block + o % block];
      }
  return result;
}

// The activation that ONNX Runtime fused into a convolution, with its attribute activation_params.
Value* activated(NodeForm& f, Value* x) {
  const std::string name = f.node().attr_string("activation", "");
  if (name.empty()) return x;
  const auto* given = f.node().find<std::vector<float>>("activation_params");
  const auto parameter = [&](size_t i) {
    if (!given || i >= given->size()) refuse(fmt::format("activation '{}' without its parameters", name));
    return (*given)[i];
  };
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh") return f.op(name, {x});
  if (name == "LeakyRelu") return f.op(name, {x}, {{"alpha", parameter(0)}});
  if (name == "HardSigmoid") return f.op(name, {x}, {{"alpha", parameter(0)}, {"beta", parameter(1)}});
  if (name == "Clip") {
    const auto bound = [&](size_t i) {
      return f.op("CastLike", {f.number(double{parameter(i)}, DataType::kFloat), x});
    };
    return f.op(name, {x, bound(0), bound(1)});
  }
  refuse(fmt::format("activation '{}'", name));
}

// activation(Conv(x, w, bias) + addend), bias and addend at inputs 2 and 3.
Value* convolution(NodeForm& f, Value* w) {
  Value* y = f.op("Conv", {f.in(0), w, f.in(2)},
                  f.attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  return activated(f, f.in(3) ? f.add(y, f.in(3)) : y);
}

Value* fused_conv_form(NodeForm& f) { return convolution(f, f.in(1)); }

Value* conv_form(NodeForm& f) {
  return convolution(f, f.tensor(unblocked(weights_of(f.node()), block_of(*f.node().graph()))));
}

// The channels, brought to axis 1, filled up to whole blocks with zeros.
Value* reorder_input_form(NodeForm& f) {
  const bool last = f.node().attr_int("channels_last", 0) != 0;
  Value* x = last ? f.transpose(f.in(0), {0, 3, 1, 2}) : f.in(0);
  const int64_t block = block_of(*f.node().graph());
  const TensorType& type = f.node().input(0)->tensor_type();
  if (type.rank() == 4)
    if (const auto channels = type.dim(last ? 3 : 1).constant(); channels && *channels % block == 0) return x;
  Value* missing = f.op("Mod", {f.op("Neg", {f.as_list(f.dim(x, 1))}), f.ints({block})});
  return f.op("Pad", {x, f.concat({f.ints({0, 0, 0, 0, 0}), missing, f.ints({0, 0})}, 0)});
}

Value* reorder_output_form(NodeForm& f) {
  Value* y = f.op("Slice", {f.in(0), f.ints({0}), f.ints({f.node().attr_int("channels", 0)}), f.ints({1})});
  return f.node().attr_int("channels_last", 0) != 0 ? f.transpose(y, {0, 2, 3, 1}) : y;
}

Value* pool_form(NodeForm& f) {
  return f.op(f.node().type(), {f.in(0)},
              f.attributes({"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads",
                            "storage_order", "strides"}));
}

Value* upsample_form(NodeForm& f) {
  const std::vector<int64_t> scales = f.node().attr_ints("scales");
  Tensor factors = Tensor::allocate(DataType::kFloat, {static_cast<int64_t>(scales.size())});
  std::copy(scales.begin(), scales.end(), factors.mutable_data<float>());
  Attributes attributes = f.attributes({"coordinate_transformation_mode", "mode"});
  attributes.try_emplace("coordinate_transformation_mode", std::string("asymmetric"));
  if (f.node().attr_string("mode", "nearest") == "nearest") attributes["nearest_mode"] = std::string("floor");
  return f.op("Resize", {f.in(0), nullptr, f.tensor(std::move(factors))}, std::move(attributes));
}

using Form = FormOf<NodeForm>;
constexpr std::array kForms{Form{"FusedConv", fused_conv_form}};
constexpr std::array kBlockedForms{Form{"AveragePool", pool_form},
                                   Form{"Conv", conv_form},
                                   Form{"GlobalAveragePool", pool_form},
                                   Form{"GlobalMaxPool", pool_form},
                                   Form{"MaxPool", pool_form},
                                   Form{"ReorderInput", reorder_input_form},
                                   Form{"ReorderOutput", reorder_output_form},
                                   Form{"Upsample", upsample_form}};

}  // namespace

std::optional<Function> convolution_form(const Node& node) {
  if (node.domain() == "com.microsoft") return build_form<NodeForm>(node, kForms);
  return node.domain() == kBlocked ? build_form<NodeForm>(node, kBlockedForms) : std::nullopt;
}

}  // namespace attune
