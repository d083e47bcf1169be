// Operators that compute each element from the elements at the same place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

using RealUnary = double (*)(double);
using RealBinary = double (*)(double, double);
using IntegerUnary = Dim (*)(const Dim&);
using IntegerBinary = Dim (*)(const Dim&, const Dim&);
using Real = std::optional<double>;

// ---- values

Dim truth(bool value) { return Dim(value ? 1 : 0); }

Dim equal(const Dim& a, const Dim& b) {
  if (a == b) return truth(true);
  if ((a - b).at_least(1) || (b - a).at_least(1)) return truth(false);
  const auto difference = (a - b).constant();
  return difference && *difference != 0 ? truth(false) : Dim();
}

Dim less(const Dim& a, const Dim& b) {
  if ((b - a).at_least(1)) return truth(true);
  return (a - b).at_least(0) ? truth(false) : Dim();
}

Dim less_or_equal(const Dim& a, const Dim& b) {
  if ((b - a).at_least(0)) return truth(true);
  return (a - b).at_least(1) ? truth(false) : Dim();
}

Dim logical_not(const Dim& a) { return Dim(1) - a; }

Dim logical_and(const Dim& a, const Dim& b) {
  if (a.is(0) || b.is(0)) return truth(false);
  return a.is(1) && b.is(1) ? truth(true) : Dim();
}

Dim logical_or(const Dim& a, const Dim& b) { return logical_not(logical_and(logical_not(a), logical_not(b))); }

Dim logical_xor(const Dim& a, const Dim& b) {
  return a.constant() && b.constant() ? truth(*a.constant() != *b.constant()) : Dim();
}

// ONNX divides integers towards zero.
Dim divide(const Dim& a, const Dim& b) {
  const auto x = a.constant(), y = b.constant();
  if (x && y) return *y == 0 || (*y == -1 && *x == INT64_MIN) ? Dim() : Dim(*x / *y);
  return a.at_least(0) && b.at_least(0) ? Dim::floor_divide(a, b) : Dim();
}

// Mod with fmod = 1: the sign of the dividend.
Dim remainder(const Dim& a, const Dim& b) { return a.at_least(0) && b.at_least(0) ? Dim::modulo(a, b) : Dim(); }

Dim power(const Dim& a, const Dim& b) {
  const auto exponent = b.constant();
  if (!exponent || *exponent < 0 || *exponent > 62) return {};
  Dim out(1);
  for (int64_t i = 0; i < *exponent; ++i) out = out * a;
  return out;
}

Dim absolute(const Dim& a) {
  if (a.at_least(0)) return a;
  return (Dim(0) - a).at_least(0) ? Dim(0) - a : Dim();
}

Dim sign(const Dim& a) {
  if (a.at_least(1)) return 1;
  if (a.is(0)) return 0;
  return (Dim(0) - a).at_least(1) ? Dim(-1) : Dim();
}

Real convert_real(DataType to, double value) {
  return std::isfinite(value) || is_float(to) ? Real(round_to(to, value)) : std::nullopt;
}

SymbolicTensor cast(const SymbolicTensor& from, DataType to) {
  SymbolicTensor out{to, from.shape, {}, {}};
  for (const Dim& d : from.integers) {
    if (is_float(to)) {
      const auto c = d.constant();
      out.reals.push_back(c ? Real(round_to(to, static_cast<double>(*c))) : std::nullopt);
    } else if (to == DataType::kBool) {
      out.integers.push_back(logical_not(equal(d, 0)));
    } else {
      out.integers.push_back(fit_to(to, d));
    }
  }
  for (const Real& r : from.reals) {
    if (is_float(to)) {
      out.reals.push_back(r ? convert_real(to, *r) : std::nullopt);
    } else if (to == DataType::kBool) {
      out.integers.push_back(r ? truth(*r != 0) : Dim());
    } else {
      const bool fits = r && std::fabs(*r) < 9e18;
      out.integers.push_back(fits ? fit_to(to, static_cast<int64_t>(*r)) : Dim());
    }
  }
  return out;
}

// ---- rules

void same_type(NodeInference& n) { n.set(0, n.element(0), n.shape(0)); }

void boolean(NodeInference& n) { n.set(0, DataType::kBool, n.shape(0)); }

void expect_same_elements(const NodeInference& n, size_t a, size_t b) {
  const DataType x = n.element(a), y = n.element(b);
  if (x != y && x != DataType::kUndefined && y != DataType::kUndefined)
    n.fail(fmt::format("inputs {} and {} have different element types: {} and {}", a, b, name(x), name(y)));
}

std::optional<Dims> broadcast_shape(NodeInference& n) {
  std::optional<Dims> shape = Dims{};
  for (size_t i = 0; i < n.input_count() && shape; ++i) {
    if (!n.has(i)) continue;
    shape = n.shape(i) ? std::optional(n.broadcast(*shape, *n.shape(i))) : std::nullopt;
  }
  return shape;
}

std::function<void(NodeInference&)> unary(RealUnary real, IntegerUnary integer = nullptr) {
  return [=](NodeInference& n) {
    same_type(n);
    const SymbolicTensor* x = n.contents(0);
    if (!x) return;
    SymbolicTensor out{x->type, x->shape, {}, {}};
    for (const Real& r : x->reals) out.reals.push_back(r && real ? Real(round_to(x->type, real(*r))) : std::nullopt);
    for (const Dim& d : x->integers) out.integers.push_back(integer ? fit_to(x->type, integer(d)) : Dim());
    n.set_contents(0, std::move(out));
  };
}

// The elements of all inputs, broadcast to the shape of the output; empty if that isn't small or nothing is known.
std::vector<SymbolicTensor> broadcast_elements(NodeInference& n, const std::optional<Dims>& shape) {
  const auto sizes = shape ? to_sizes(*shape) : std::nullopt;
  if (!sizes || !small_count(*sizes)) return {};
  std::vector<SymbolicTensor> out;
  bool known = false;
  for (size_t i = 0; i < n.input_count(); ++i) {
    known = known || n.contents(i);
    const auto x = n.elements(i);
    if (!x) return {};
    out.push_back(pick(*x, *sizes, broadcast_indices(x->shape, *sizes)));
  }
  return known ? out : std::vector<SymbolicTensor>();
}

std::vector<SymbolicTensor> broadcast_operands(NodeInference& n, DataType result) {
  const auto shape = broadcast_shape(n);
  n.set(0, result, shape);
  return broadcast_elements(n, shape);
}

// com.microsoft: a and b with scale and zero point each, scale and zero point of the result.
void quantized_binary(NodeInference& n) {
  const auto a = n.shape(0), b = n.shape(3);
  n.set(0, n.element(0), a && b ? std::optional(n.broadcast(*a, *b)) : std::nullopt);
}

// Two or more operands, combined from the left.
void arithmetic(NodeInference& n, RealBinary real, IntegerBinary integer) {
  for (size_t i = 1; i < n.input_count(); ++i) expect_same_elements(n, 0, i);
  const auto operands = broadcast_operands(n, n.element(0));
  if (operands.empty()) return;
  SymbolicTensor out = operands[0];
  for (size_t k = 1; k < operands.size(); ++k) {
    const SymbolicTensor& b = operands[k];
    for (size_t i = 0; i < out.integers.size(); ++i)
      out.integers[i] = integer ? fit_to(out.type, integer(out.integers[i], b.integers[i])) : Dim();
    for (size_t i = 0; i < out.reals.size(); ++i)
      out.reals[i] =
          out.reals[i] && b.reals[i] ? Real(round_to(out.type, real(*out.reals[i], *b.reals[i]))) : std::nullopt;
  }
  n.set_contents(0, std::move(out));
}

std::function<void(NodeInference&)> binary(RealBinary real, IntegerBinary integer) {
  return [=](NodeInference& n) { arithmetic(n, real, integer); };
}

std::function<void(NodeInference&)> comparison(bool (*real)(double, double), IntegerBinary integer) {
  return [=](NodeInference& n) {
    expect_same_elements(n, 0, 1);
    const auto operands = broadcast_operands(n, DataType::kBool);
    if (operands.empty()) return;
    const SymbolicTensor &a = operands[0], &b = operands[1];
    SymbolicTensor out{DataType::kBool, a.shape, {}, {}};
    for (size_t i = 0; i < a.integers.size(); ++i) out.integers.push_back(integer(a.integers[i], b.integers[i]));
    for (size_t i = 0; i < a.reals.size(); ++i)
      out.integers.push_back(real && a.reals[i] && b.reals[i] ? truth(real(*a.reals[i], *b.reals[i])) : Dim());
    n.set_contents(0, std::move(out));
  };
}

// Bitwise operators and the like: the type and shape of broadcasting, no values.
void broadcast_only(NodeInference& n) { n.set(0, n.element(0), broadcast_shape(n)); }

void infer_mod(NodeInference& n) {
  const bool truncate = n.node().attr_int("fmod", 0) != 0;
  arithmetic(
      n, [](double a, double b) { return std::fmod(a, b); }, truncate ? remainder : Dim::modulo);
}

void infer_pow(NodeInference& n) {
  const auto operands = broadcast_operands(n, n.element(0));
  if (operands.empty()) return;
  const SymbolicTensor& a = operands[0];
  const SymbolicTensor b = a.is_integer() ? operands[1] : cast(operands[1], a.type);
  SymbolicTensor out{a.type, a.shape, {}, {}};
  for (size_t i = 0; i < a.integers.size(); ++i)
    out.integers.push_back(b.is_integer() ? fit_to(a.type, power(a.integers[i], b.integers[i])) : Dim());
  for (size_t i = 0; i < a.reals.size(); ++i)
    out.reals.push_back(a.reals[i] && b.reals[i] ? Real(round_to(a.type, std::pow(*a.reals[i], *b.reals[i])))
                                                 : std::nullopt);
  n.set_contents(0, std::move(out));
}

void infer_where(NodeInference& n) {
  expect_same_elements(n, 1, 2);
  const auto operands = broadcast_operands(n, n.element(1) != DataType::kUndefined ? n.element(1) : n.element(2));
  if (operands.empty()) return;
  const SymbolicTensor &condition = operands[0], &x = operands[1], &y = operands[2];
  if (!condition.is_integer()) n.fail("the condition isn't boolean");
  SymbolicTensor out{x.type, x.shape, {}, {}};
  const auto choose = [&](size_t i, const auto& a, const auto& b, auto unknown) {
    if (condition.integers[i].is(1)) return a;
    if (condition.integers[i].is(0)) return b;
    return a == b ? a : unknown;
  };
  for (size_t i = 0; i < x.integers.size(); ++i) out.integers.push_back(choose(i, x.integers[i], y.integers[i], Dim()));
  for (size_t i = 0; i < x.reals.size(); ++i) out.reals.push_back(choose(i, x.reals[i], y.reals[i], Real()));
  n.set_contents(0, std::move(out));
}

void infer_cast(NodeInference& n) {
  const auto to = static_cast<DataType>(n.node().attr_int("to", 0));
  if (name(to) == "undefined") n.fail("attribute 'to' is no element type");
  n.set(0, to, n.shape(0));
  const SymbolicTensor* x = n.contents(0);
  if (x && (is_float(to) || is_integer(to) || to == DataType::kBool)) n.set_contents(0, cast(*x, to));
}

void infer_cast_like(NodeInference& n) {
  const DataType to = n.element(1);
  n.set(0, to, n.shape(0));
  const SymbolicTensor* x = n.contents(0);
  if (x && (is_float(to) || is_integer(to) || to == DataType::kBool)) n.set_contents(0, cast(*x, to));
}

// Bounds are inputs from opset 11 on, attributes before.
void infer_clip(NodeInference& n) {
  same_type(n);
  const SymbolicTensor* x = n.contents(0);
  if (!x) return;
  SymbolicTensor out = *x;
  const auto bound = [&](size_t input, const char* attribute, RealBinary real, IntegerBinary integer) {
    if (const float* value = n.node().find<float>(attribute)) {
      for (Real& r : out.reals)
        if (r) r = real(*r, static_cast<double>(*value));
    }
    if (!n.has(input)) return;
    const auto limit = n.elements(input);
    const bool usable = limit && limit->size() == 1 && limit->is_integer() == out.is_integer();
    for (Dim& d : out.integers) d = usable ? integer(d, limit->integers[0]) : Dim();
    for (Real& r : out.reals) r = r && usable && limit->reals[0] ? Real(real(*r, *limit->reals[0])) : std::nullopt;
  };
  bound(
      1, "min", [](double a, double b) { return std::max(a, b); }, Dim::maximum);
  bound(
      2, "max", [](double a, double b) { return std::min(a, b); }, Dim::minimum);
  n.set_contents(0, std::move(out));
}

void infer_identity(NodeInference& n) {
  n.set_type(0, n.type(0));
  if (const SymbolicTensor* x = n.contents(0)) n.set_contents(0, *x);
}

// An optional second output is the mask.
void infer_dropout(NodeInference& n) {
  infer_identity(n);
  n.set(1, n.opset() >= 10 ? DataType::kBool : n.element(0), n.shape(0));
}

double reciprocal(double x) { return 1 / x; }
double relu(double x) { return x > 0 ? x : 0; }
double signum(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
Dim identity(const Dim& a) { return a; }
Dim negative(const Dim& a) { return Dim(0) - a; }

InferRules unary_rules() {
  InferRules rules{
      {"", "Abs", 1, unary([](double x) { return std::fabs(x); }, absolute)},
      {"", "Neg", 1, unary([](double x) { return -x; }, negative)},
      {"", "Sqrt", 1, unary([](double x) { return std::sqrt(x); })},
      {"", "Exp", 1, unary([](double x) { return std::exp(x); })},
      {"", "Log", 1, unary([](double x) { return std::log(x); })},
      {"", "Floor", 1, unary([](double x) { return std::floor(x); }, identity)},
      {"", "Ceil", 1, unary([](double x) { return std::ceil(x); }, identity)},
      {"", "Round", 1, unary([](double x) { return std::nearbyint(x); }, identity)},
      {"", "Sign", 1, unary(signum, sign)},
      {"", "Reciprocal", 1, unary(reciprocal)},
      {"", "Relu", 1, unary(relu, [](const Dim& a) { return Dim::maximum(a, 0); })},
      {"", "Sigmoid", 1, unary(sigmoid)},
      {"", "Tanh", 1, unary([](double x) { return std::tanh(x); })},
      {"", "Erf", 1, unary([](double x) { return std::erf(x); })},
      {"", "Not", 1, unary(nullptr, logical_not)},
      {"", "Identity", 1, infer_identity},
      {"", "Dropout", 1, infer_dropout},
      {"", "Cast", 1, infer_cast},
      {"", "CastLike", 2, infer_cast_like},
      {"", "Clip", 1, infer_clip},
      {"", "IsNaN", 1, boolean},
      {"", "IsInf", 1, boolean},
  };
  for (const char* type :
       {"Sin",        "Cos",     "Tan",        "Asin",    "Acos",     "Atan",     "Sinh",        "Cosh",
        "Asinh",      "Acosh",   "Atanh",      "Elu",     "Celu",     "Gelu",     "HardSigmoid", "HardSwish",
        "LeakyRelu",  "Mish",    "Selu",       "Shrink",  "Softplus", "Softsign", "Swish",       "ThresholdedRelu",
        "BitwiseNot", "Softmax", "LogSoftmax", "Hardmax", "PRelu",    "Trilu",    "CumSum",      "CumProd"})
    rules.push_back({"", type, 1, same_type});
  for (const char* type :
       {"Gelu", "FastGelu", "QuickGelu", "BiasGelu", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"})
    rules.push_back({"com.microsoft", type, 1, same_type});
  return rules;
}

InferRules binary_rules() {
  return {
      {"", "Add", 2,
       binary([](double a, double b) { return a + b; }, [](const Dim& a, const Dim& b) { return a + b; })},
      {"", "Sub", 2,
       binary([](double a, double b) { return a - b; }, [](const Dim& a, const Dim& b) { return a - b; })},
      {"", "Mul", 2,
       binary([](double a, double b) { return a * b; }, [](const Dim& a, const Dim& b) { return a * b; })},
      {"", "Div", 2, binary([](double a, double b) { return a / b; }, divide)},
      {"", "Min", 1, binary([](double a, double b) { return std::min(a, b); }, Dim::minimum)},
      {"", "Max", 1, binary([](double a, double b) { return std::max(a, b); }, Dim::maximum)},
      {"", "Sum", 1,
       binary([](double a, double b) { return a + b; }, [](const Dim& a, const Dim& b) { return a + b; })},
      {"", "Mean", 1, broadcast_only},
      {"", "Mod", 2, infer_mod},
      {"", "Pow", 2, infer_pow},
      {"", "BitShift", 2, broadcast_only},
      {"", "BitwiseAnd", 2, broadcast_only},
      {"", "BitwiseOr", 2, broadcast_only},
      {"", "BitwiseXor", 2, broadcast_only},
      {"", "Equal", 2, comparison([](double a, double b) { return a == b; }, equal)},
      {"", "Less", 2, comparison([](double a, double b) { return a < b; }, less)},
      {"", "LessOrEqual", 2, comparison([](double a, double b) { return a <= b; }, less_or_equal)},
      {"", "Greater", 2,
       comparison([](double a, double b) { return a > b; }, [](const Dim& a, const Dim& b) { return less(b, a); })},
      {"", "GreaterOrEqual", 2,
       comparison([](double a, double b) { return a >= b; },
                  [](const Dim& a, const Dim& b) { return less_or_equal(b, a); })},
      {"", "And", 2, comparison(nullptr, logical_and)},
      {"", "Or", 2, comparison(nullptr, logical_or)},
      {"", "Xor", 2, comparison(nullptr, logical_xor)},
      {"", "Where", 3, infer_where},
      {"com.microsoft", "QLinearAdd", 7, quantized_binary},
      {"com.microsoft", "QLinearMul", 7, quantized_binary},
  };
}

}  // namespace

InferRules elementwise_rules() {
  InferRules rules = unary_rules();
  for (InferRule& rule : binary_rules()) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace attune
