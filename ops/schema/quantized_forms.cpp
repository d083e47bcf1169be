#include "ops/schema/quantized_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/schema/node_form.h"

namespace attune {
namespace {

class QuantizedForm : public NodeForm {
 public:
  using NodeForm::NodeForm;

  // Input i by the scale and zero point that follow it.
  Value* dequantized(size_t i) { return dequantized_as(in(i), i); }
  // x by the scale and zero point of input i.
  Value* dequantized_as(Value* x, size_t i) { return op("DequantizeLinear", {x, in(i + 1), in(i + 2)}); }
  // x by the scale at input i and the zero point after it.
  Value* quantized(Value* x, size_t i) { return op("QuantizeLinear", {x, in(i), in(i + 1)}); }
  // The integers of input i as floats; 0 where it is left out.
  Value* code(size_t i) { return in(i) ? cast(in(i), DataType::kFloat) : number(0, DataType::kFloat); }

  // f(x), where f takes channels at axis 1 and the node has them at the end if `last`.
  template <class F>
  Value* with_channels_first(Value* x, int rank, bool last, F&& f) {
    if (!last) return f(x);
    if (rank < 3) refuse("channels_last of an unknown rank");
    std::vector<int64_t> to(static_cast<size_t>(rank)), back(to.size());
    for (size_t i = 0; i < to.size(); ++i) to[i] = i == 0 ? 0 : i == 1 ? rank - 1 : static_cast<int64_t>(i) - 1;
    for (size_t i = 0; i < to.size(); ++i) back[static_cast<size_t>(to[i])] = static_cast<int64_t>(i);
    return transpose(f(transpose(x, to)), back);
  }
  bool channels_last() const { return node().attr_int("channels_last", 0) != 0; }
  int rank(size_t input) const { return node().input(input) ? node().input(input)->tensor_type().rank() : -1; }
};

// ---- operators on quantised tensors: A, A_scale, A_zero_point ...

// y, in steps of the result's scale, with the zero point at input 7 in it, as the result.
Value* rounded(QuantizedForm& f, Value* y) {
  const Value* zero = f.node().input(7);
  const DataType type = zero ? zero->element_type() : DataType::kUInt8;
  if (type != DataType::kUInt8 && type != DataType::kInt8) refuse("the type of the result isn't known");
  const double lowest = type == DataType::kInt8 ? -128 : 0;
  y = f.op("Clip", {f.op("Round", {y}), f.number(lowest, DataType::kFloat), f.number(lowest + 255, DataType::kFloat)});
  return f.cast(y, type);
}

// x y + z in float, rounded once: the products of codes and floats are exact in double.
Value* fused_multiply_add(QuantizedForm& f, Value* x, Value* y, Value* z) {
  const auto wide = [&](Value* v) { return f.cast(v, DataType::kDouble); };
  return f.cast(f.add(f.mul(wide(x), wide(y)), wide(z)), DataType::kFloat);
}

// Sums and products of A, A_scale, A_zero_point, B ..., C_scale, C_zero_point as ONNX Runtime computes them: in steps
// of the result, rounded after the zero point was added. It counts where many results lie halfway (1 + erf(x)).
Value* add_form(QuantizedForm& f) {
  Value *a_step = f.div(f.in(1), f.in(6)), *b_step = f.div(f.in(4), f.in(6));
  Value* shift = f.sub(f.code(7), f.add(f.mul(a_step, f.code(2)), f.mul(b_step, f.code(5))));
  return rounded(f, fused_multiply_add(f, f.in(0), a_step, fused_multiply_add(f, f.in(3), b_step, shift)));
}
Value* mul_form(QuantizedForm& f) {
  Value* step = f.div(f.mul(f.in(1), f.in(4)), f.in(6));
  Value* product = f.mul(f.sub(f.code(0), f.code(2)), f.sub(f.code(3), f.code(5)));
  return rounded(f, f.add(f.mul(product, step), f.code(7)));
}
Value* unary(QuantizedForm& f, const char* type, std::initializer_list<const char*> names) {
  return f.quantized(f.op(type, {f.dequantized(0)}, f.attributes(names)), 3);
}

Value* sigmoid_form(QuantizedForm& f) { return unary(f, "Sigmoid", {}); }
Value* leaky_relu_form(QuantizedForm& f) { return unary(f, "LeakyRelu", {"alpha"}); }

Value* reduce_mean_form(QuantizedForm& f) {
  Value* axes = f.node().has("axes") ? f.ints(f.node().attr_ints("axes")) : nullptr;
  return f.quantized(f.op("ReduceMean", {f.dequantized(0), axes}, f.attributes({"keepdims"})), 3);
}

Value* average_pool_form(QuantizedForm& f) {
  const int rank = static_cast<int>(f.node().attr_ints("kernel_shape").size()) + 2;
  return f.with_channels_first(f.in(0), rank, f.channels_last(), [&](Value* x) {
    Value* y = f.op("AveragePool", {f.dequantized_as(x, 0)},
                    f.attributes({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"}));
    return f.quantized(y, 3);
  });
}
Value* global_average_pool_form(QuantizedForm& f) {
  return f.with_channels_first(f.in(0), f.rank(0), f.channels_last(), [&](Value* x) {
    return f.quantized(f.op("GlobalAveragePool", {f.dequantized_as(x, 0)}), 3);
  });
}

// The standard operator but for channels_last, of which the weights know nothing.
Value* conv_form(QuantizedForm& f) {
  return f.with_channels_first(f.in(0), f.rank(3), f.channels_last(), [&](Value* x) {
    return f.op("QLinearConv", {x, f.in(1), f.in(2), f.in(3), f.in(4), f.in(5), f.in(6), f.in(7), f.in(8)},
                f.attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  });
}
Value* max_pool_form(QuantizedForm& f) {
  const int rank = static_cast<int>(f.node().attr_ints("kernel_shape").size()) + 2;
  return f.with_channels_first(f.in(0), rank, true, [&](Value* x) {
    return f.op("MaxPool", {x},
                f.attributes({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"}));
  });
}

Value* concat_form(QuantizedForm& f) {
  std::vector<Value*> parts;
  for (size_t i = 2; i + 2 < f.input_count(); i += 3) parts.push_back(f.dequantized(i));
  return f.quantized(f.concat(std::move(parts), f.node().attr_int("axis", 0)), 0);
}

Value* where_form(QuantizedForm& f) { return f.quantized(f.where(f.in(0), f.dequantized(1), f.dequantized(4)), 7); }

// A, B with their scales and zero points, C as integers of the product's scale, Y's scale and zero point.
Value* gemm_form(QuantizedForm& f) {
  const bool transposed = f.node().attr_int("transB", 0) != 0;
  Value* b = f.op("DequantizeLinear", {f.in(3), f.in(4), f.in(5)}, {{"axis", int64_t{transposed ? 0 : 1}}});
  Value* c = f.in(6);
  if (c) c = f.mul(f.cast(c, DataType::kFloat), f.mul(f.in(1), f.in(4)));
  Value* y = f.op("Gemm", {f.dequantized(0), b, c}, f.attributes({"alpha", "transA", "transB"}));
  return f.in(7) ? f.quantized(y, 7) : y;
}

// ---- MatMulNBits: A, B (N, blocks, bytes), scales (N, blocks), zero_points, g_idx, bias

struct NBits {
  int64_t inner, columns, block, bits, blocks;
};

const Tensor& constant(const Node& node, size_t i, std::string_view name) {
  const Tensor* t = node.input(i) ? node.input(i)->constant() : nullptr;
  if (!t) refuse(fmt::format("{} aren't constant", name));
  return *t;
}

void expect_count(const Tensor& t, std::string_view name, int64_t count) {
  if (t.count() != count)
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("{}: expected {} elements, got shape {}", name, count, t.shape().to_string()));
}

int64_t row_bytes(int64_t count, int64_t bits) { return (count * bits + 7) / 8; }

// Rows of `count` codes, each row from a new byte on and `stride` bytes apart, as int8 or int4: unsigned codes less the
// middle of their range.
Tensor signed_codes(const Tensor& bytes, const NBits& n, int64_t count, int64_t stride) {
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.raw());
  Tensor out = Tensor::allocate(n.bits == 4 ? DataType::kInt4 : DataType::kInt8, {n.columns, count});
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  std::fill_n(to, out.bytes(), uint8_t{0});
  for (int64_t row = 0; row < n.columns; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = row * count + i;
      if (n.bits == 8) {
        to[at] = static_cast<uint8_t>(from[row * stride + i] ^ 0x80);
      } else {
        const unsigned code = (static_cast<unsigned>(from[row * stride + i / 2]) >> (i % 2 * 4)) & 15U;
        to[at / 2] = static_cast<uint8_t>(to[at / 2] | ((code ^ 8U) << (at % 2 * 4)));
      }
    }
  return out;
}

Value* matmul_nbits_form(QuantizedForm& f) {
  const Node& node = f.node();
  NBits n{node.attr_int("K", 0), node.attr_int("N", 0), node.attr_int("block_size", 0), node.attr_int("bits", 4), 0};
  if (n.inner < 1 || n.columns < 1 || n.block < 1)
    throw Error(Error::Kind::kInvalidModel, fmt::format("K {}, N {}, block_size {}", n.inner, n.columns, n.block));
  if (n.bits != 4 && n.bits != 8) refuse(fmt::format("weights of {} bits", n.bits));
  if (node.input(4)) refuse("g_idx");
  n.blocks = (n.inner + n.block - 1) / n.block;
  const int64_t stride = n.blocks * row_bytes(n.block, n.bits);
  const Tensor &weights = constant(node, 1, "weights"), &scales = constant(node, 2, "scales");
  expect_count(weights, "B", n.columns * stride);
  expect_count(scales, "scales", n.columns * n.blocks);
  Value* zeros = nullptr;
  if (node.input(3)) {
    const Tensor& points = constant(node, 3, "zero points");
    if (points.type() != DataType::kUInt8) refuse("zero points that aren't packed");
    expect_count(points, "zero_points", n.columns * row_bytes(n.blocks, n.bits));
    zeros = f.tensor(signed_codes(points, n, n.blocks, row_bytes(n.blocks, n.bits)));
  }
  Value* w = f.op(
      "DequantizeLinear",
      {f.tensor(signed_codes(weights, n, n.inner, stride)), f.tensor(scales.reshaped({n.columns, n.blocks})), zeros},
      {{"axis", int64_t{1}}, {"block_size", n.block}});
  std::vector<Value*> inputs{f.in(0), w};
  if (f.in(5)) inputs.push_back(f.in(5));
  return f.graph().add_node("ai.attune", "Linear", std::move(inputs), 1, {{"transposed", int64_t{1}}})->output();
}

using Form = FormOf<QuantizedForm>;
constexpr std::array kForms{Form{"MatMulNBits", matmul_nbits_form},
                            Form{"NhwcMaxPool", max_pool_form},
                            Form{"QGemm", gemm_form},
                            Form{"QLinearAdd", add_form},
                            Form{"QLinearAveragePool", average_pool_form},
                            Form{"QLinearConcat", concat_form},
                            Form{"QLinearConv", conv_form},
                            Form{"QLinearGlobalAveragePool", global_average_pool_form},
                            Form{"QLinearLeakyRelu", leaky_relu_form},
                            Form{"QLinearMul", mul_form},
                            Form{"QLinearReduceMean", reduce_mean_form},
                            Form{"QLinearSigmoid", sigmoid_form},
                            Form{"QLinearWhere", where_form}};

}  // namespace

std::optional<Function> quantized_form(const Node& node) {
  return node.domain() == "com.microsoft" ? build_form<QuantizedForm>(node, kForms) : std::nullopt;
}

}  // namespace attune
