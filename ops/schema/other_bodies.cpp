#include "ops/schema/other_bodies.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ops/schema/body_builder.h"

namespace attune {
namespace {

DataType element_of(const Node& node, size_t input) {
  const DataType type = node.input(input)->element_type();
  if (!is_float(type)) throw Error(Error::Kind::kUnsupported, "the element type of input 0 isn't known");
  return type;
}

[[noreturn]] void fail_attribute(std::string_view name, std::string_view expected, std::string_view got) {
  throw Error(Error::Kind::kInvalidModel, fmt::format("attribute '{}': expected {}, got '{}'", name, expected, got));
}

Value* activate(BodyBuilder& b, Value* x, const std::string& activation, DataType type) {
  const auto number = [&](double v) { return b.number(v, type); };
  if (activation == "none") return x;
  if (activation == "relu") return b.op("Relu", {x});
  if (activation == "tanh") return b.op("Tanh", {x});
  if (activation == "sigmoid") return b.op("Sigmoid", {x});
  if (activation == "silu") return b.mul(x, b.op("Sigmoid", {x}));
  Value* inner = nullptr;
  if (activation == "gelu") {
    inner = b.op("Erf", {b.mul(x, number(1 / std::numbers::sqrt2))});
  } else if (activation == "gelu_tanh") {
    Value* cube = b.mul(b.mul(x, x), x);
    inner = b.op("Tanh", {b.mul(b.add(x, b.mul(cube, number(0.044715))), number(std::sqrt(2 / std::numbers::pi)))});
  } else {
    fail_attribute("activation", "one of none, relu, gelu, gelu_tanh, silu, tanh, sigmoid", activation);
  }
  return b.mul(b.mul(x, number(0.5)), b.add(inner, number(1)));
}

}  // namespace

std::vector<Value*> build_linear_body(const Node& node, int64_t opset, Graph& body) {
  BodyBuilder b(body, opset);
  const DataType type = element_of(node, 0), wide = wide_type(type);
  const auto input = [&](size_t i) { return b.cast(body.inputs()[i], wide); };
  Value* w = input(1);
  if (node.attr_int("transposed", 0) != 0) w = b.transpose(w, {1, 0});
  Value* y = b.matmul(input(0), w);
  if (node.input(2)) y = b.add(y, input(2));
  y = activate(b, y, node.attr_string("activation", "none"), wide);
  if (node.input(3)) y = b.add(y, input(3));
  return {type == wide ? y : b.cast(y, type)};
}

std::vector<Value*> build_residual_normalization_body(const Node& node, int64_t opset, Graph& body) {
  BodyBuilder b(body, opset);
  const DataType type = element_of(node, 0), wide = wide_type(type);
  const auto input = [&](size_t i) { return b.cast(body.inputs()[i], wide); };
  const std::string kind = node.attr_string("kind", "layer");
  if (kind != "layer" && kind != "rms") fail_attribute("kind", "layer or rms", kind);
  const int64_t axis = node.attr_int("axis", -1);
  const int rank = node.input(0)->tensor_type().rank();
  if (axis >= 0 && rank < 0) throw Error(Error::Kind::kUnsupported, "the rank of input 0 isn't known");
  std::vector<int64_t> axes;
  for (int64_t i = axis < 0 ? axis : axis - rank; i < 0; ++i) axes.push_back(i);
  Value* sum = input(0);
  if (node.input(1)) sum = b.add(sum, input(1));
  Value* centred = kind == "rms" ? sum : b.sub(sum, b.reduce_mean(sum, axes));
  Value* variance = b.reduce_mean(b.mul(centred, centred), axes);
  const auto epsilon = static_cast<double>(node.attr_float("epsilon", 1e-5F));
  Value* y = b.div(centred, b.op("Sqrt", {b.add(variance, b.number(epsilon, wide))}));
  if (node.input(2)) y = b.mul(y, input(2));
  if (node.input(3)) y = b.add(y, input(3));
  const auto narrow = [&](Value* v) { return type == wide ? b.op("Identity", {v}) : b.cast(v, type); };
  std::vector<Value*> outputs{narrow(y)};
  if (node.output_count() > 1) outputs.push_back(narrow(sum));
  return outputs;
}

std::vector<Value*> build_position_embedding_body(const Node& node, int64_t opset, Graph& body) {
  BodyBuilder b(body, opset);
  const DataType type = element_of(node, 0), wide = wide_type(type);
  Value* x = body.inputs()[0];
  Value* count = b.dim(x, -2);
  Value* offset = b.integer(node.attr_int("offset", 0));
  Value* start = node.input(2) ? b.op("Reshape", {body.inputs()[2], b.ints({})}) : nullptr;
  Value* row = nullptr;
  if (node.input(3)) {
    Value* tokens = body.inputs()[3];
    Value* total = b.op("CumSum", {tokens, b.integer(1)});
    if (start) total = b.add(total, start);
    Value* first = b.as_list(b.sub(b.dim(tokens, 1), count));
    row = b.op("Slice", {b.add(b.mul(tokens, total), offset), first, b.ints({INT64_MAX}), b.ints({1})});
  } else {
    row = b.add(b.range(count), start ? b.add(start, offset) : offset);
  }
  Value* added = b.cast(b.op("Gather", {body.inputs()[1], row}, {{"axis", int64_t{0}}}), wide);
  Value* scaled = b.cast(x, wide);
  const auto scale = static_cast<double>(node.attr_float("scale", 1));
  if (scale != 1) scaled = b.mul(scaled, b.number(scale, wide));
  Value* y = b.add(scaled, added);
  return {type == wide ? y : b.cast(y, type)};
}

// The buckets of T5 (Raffel et al., "Exploring the limits of transfer learning", section 2.1): half of them (of a side)
// count positions one by one, the others grow logarithmically up to max_distance.
std::vector<Value*> build_relative_position_bias_body(const Node& node, int64_t opset, Graph& body) {
  BodyBuilder b(body, opset);
  const bool bidirectional = node.attr_int("bidirectional", 1) != 0;
  const auto max_distance = node.attr_int("max_distance", 128);
  const auto scalar = [&](size_t i) { return b.op("Reshape", {body.inputs()[i], b.ints({})}); };
  Value* table = body.inputs()[0];
  Value* at = b.range(scalar(1));
  if (node.input(3)) at = b.add(at, scalar(3));
  Value* distance = b.sub(b.range(scalar(2)), b.unsqueeze(at, {1}));  // key minus query
  Value* side = b.dim(table, 0);
  if (bidirectional) side = b.div(side, b.integer(2));
  Value* exact = b.div(side, b.integer(2));
  Value* zero = b.integer(0);
  Value* behind = bidirectional ? b.op("Abs", {distance}) : b.op("Max", {b.op("Neg", {distance}), zero});
  const DataType real = DataType::kFloat;
  const auto number = [&](Value* v) { return b.cast(v, real); };
  Value* exact_number = number(exact);
  Value* ratio = b.op("Log", {b.div(number(b.op("Max", {behind, b.integer(1)})), exact_number)});
  Value* limit = b.op("Log", {b.div(b.number(static_cast<double>(max_distance), real), exact_number)});
  Value* steps = b.cast(b.mul(b.div(ratio, limit), number(b.sub(side, exact))), DataType::kInt64);
  Value* far = b.op("Min", {b.add(exact, steps), b.sub(side, b.integer(1))});
  Value* bucket = b.where(b.op("Less", {behind, exact}), behind, far);
  if (bidirectional) bucket = b.add(bucket, b.where(b.op("Greater", {distance, zero}), side, zero));
  Value* bias = b.op("Gather", {table, bucket}, {{"axis", int64_t{0}}});  // (Tq, Tk, H)
  return {b.unsqueeze(b.transpose(bias, {2, 0, 1}), {0})};
}

}  // namespace attune
