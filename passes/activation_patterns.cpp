#include "passes/activation_patterns.h"

#include <cmath>
#include <numbers>

namespace attune {

using pattern::constant;
using pattern::one_of;
using pattern::Op;
using pattern::Pat;

namespace {

constexpr double kTolerance = 1e-3;  // of constants that went through float16

// 0.5 x (1 + inner), in the orders in which its factors are multiplied.
Pat half_times(const Pat& x, const Pat& inner) {
  Pat half = constant(0.5, kTolerance);
  Pat plus_one = Op("Add")(inner, constant(1));
  return one_of({}, {Op("Mul")(Op("Mul")(x, plus_one), half), Op("Mul")(Op("Mul")(x, half), plus_one),
                     Op("Mul")(x, Op("Mul")(half, plus_one))});
}

// 0.5 x (1 + erf(x / sqrt(2)))
Pat gelu(const Pat& x) {
  Pat scaled = one_of({}, {Op("Div")(x, constant(std::numbers::sqrt2, kTolerance)),
                           Op("Mul")(x, constant(1 / std::numbers::sqrt2, kTolerance))});
  return one_of({}, {half_times(x, Op("Erf")(scaled)),
                     Op("Gelu").attr_or("approximate", std::string("none"), std::string("none"))(x),
                     Op("Gelu").domain("com.microsoft")(x)});
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Pat gelu_tanh(const Pat& x) {
  Pat c = constant(0.044715, kTolerance);
  Pat square = Op("Mul")(x, x);
  Pat cube = one_of({}, {Op("Pow")(x, constant(3)), Op("Mul")(x, square)});
  Pat small = one_of({}, {Op("Mul")(cube, c), Op("Mul")(x, Op("Mul")(square, c)), Op("Mul")(square, Op("Mul")(x, c))});
  Pat root = constant(std::sqrt(2 / std::numbers::pi), kTolerance);
  // x (1 + 0.044715 x^2), with x taken out.
  Pat ratio =
      one_of({}, {Op("Mul")(Op("Mul")(x, c), x), Op("Mul")(square, c), Op("Mul")(Op("Pow")(x, constant(2)), c)});
  Pat factor = Op("Add")(ratio, constant(1));
  Pat inner = one_of({}, {Op("Mul")(Op("Add")(x, small), root), Op("Mul")(Op("Mul")(x, root), factor),
                          Op("Mul")(Op("Mul")(x, factor), root)});
  return one_of({}, {half_times(x, Op("Tanh")(inner)), Op("Gelu").attr("approximate", std::string("tanh"))(x),
                     Op("FastGelu").domain("com.microsoft")(x)});
}

}  // namespace

namespace {

// x sigmoid(x)
Pat silu(const Pat& x) {
  return one_of({}, {Op("Mul")(x, Op("Sigmoid")(x)), Op("Swish").attr_or("alpha", 1.0F, 1.0F)(x),
                     Op("Div")(x, Op("Add")(Op("Exp")(Op("Neg")(x)), constant(1)))});
}

}  // namespace

std::vector<ActivationPattern> activations_of(const Pat& x) {
  return {{"relu", Op("Relu")(x)}, {"tanh", Op("Tanh")(x)},     {"silu", silu(x)},
          {"gelu", gelu(x)},       {"gelu_tanh", gelu_tanh(x)}, {"sigmoid", Op("Sigmoid")(x)}};
}

}  // namespace attune
