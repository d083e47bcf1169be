// Elementwise activations. Formulas: the ONNX operator documentation of each.
#include <cmath>

#include "ops/op.h"
#include "ops/support/activations.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// log(1 + exp(x)), without overflow.
template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

struct ReluFunction {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? T{0} : x;
  }
};
struct LeakyReluFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return x < 0 ? a<T>() * x : x;
  }
};
struct ThresholdedReluFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return x > a<T>() ? x : T{0};
  }
};
struct EluFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return x < 0 ? a<T>() * std::expm1(x) : x;
  }
};
struct SeluFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return b<T>() * (x > 0 ? x : a<T>() * std::expm1(x));
  }
};
struct CeluFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return x > 0 ? x : a<T>() * std::expm1(x / a<T>());
  }
};
struct HardSigmoidFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    const T y = a<T>() * x + b<T>();
    return y < 0 ? T{0} : y > 1 ? T{1} : y;
  }
};
struct HardSwishFunction {
  template <class T>
  T operator()(T x) const {
    const T y = x / 6 + T(0.5);
    return x * (y < 0 ? T{0} : y > 1 ? T{1} : y);
  }
};
struct SoftplusFunction {
  template <class T>
  T operator()(T x) const {
    return softplus(x);
  }
};
struct SoftsignFunction {
  template <class T>
  T operator()(T x) const {
    return x / (1 + std::abs(x));
  }
};
struct MishFunction {
  template <class T>
  T operator()(T x) const {
    return x * std::tanh(softplus(x));
  }
};
// Shrink: alpha is lambd, beta is bias.
struct ShrinkFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    const auto v = static_cast<double>(x);
    if (v < -parameters.alpha) return static_cast<T>(v + parameters.beta);
    if (v > parameters.alpha) return static_cast<T>(v - parameters.beta);
    return T{0};
  }
};
struct PReluFunction {
  template <class T>
  T operator()(T x, T slope) const {
    return x < 0 ? static_cast<T>(slope * x) : x;
  }
};

constexpr UnaryTable kRelu =
    unary_table<ReluFunction, void, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t>();
constexpr UnaryTable kLeakyRelu = float_table<LeakyReluFunction>();
constexpr UnaryTable kThresholdedRelu = float_table<ThresholdedReluFunction>();
constexpr UnaryTable kElu = float_table<EluFunction>();
constexpr UnaryTable kSelu = float_table<SeluFunction>();
constexpr UnaryTable kCelu = float_table<CeluFunction>();
constexpr UnaryTable kHardSigmoid = float_table<HardSigmoidFunction>();
constexpr UnaryTable kHardSwish = float_table<HardSwishFunction>();
constexpr UnaryTable kSoftplus = float_table<SoftplusFunction>();
constexpr UnaryTable kSoftsign = float_table<SoftsignFunction>();
constexpr UnaryTable kMish = float_table<MishFunction>();
constexpr UnaryTable kShrink = unary_table<ShrinkFunction, void, float, double, Float16, BFloat16, int8_t, int16_t,
                                           int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>();
constexpr BinaryTable kPRelu =
    binary_table<PReluFunction, void, float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>();

// The slope is spread over x, not x over the slope.
class PReluKernel final : public Kernel {
 public:
  explicit PReluKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const Shape &x = call.input(0).shape(), &slope = call.input(1).shape();
    if (broadcast(x, slope) != x) fail_input(1, "a shape that is spread over " + x.to_string(), slope.to_string());
    run_binary(call, kPRelu);
  }
  std::string implementation() const override { return "elementwise"; }
};

// A function with attributes (names and defaults of alpha and beta).
template <const UnaryTable& kTable>
std::unique_ptr<Kernel> parametric(const KernelContext& context, float alpha, float beta = 0) {
  const Node& node = context.node();
  return std::make_unique<UnaryKernel>(kTable,
                                       Parameters{node.attr_float("alpha", alpha), node.attr_float("beta", beta)});
}

std::unique_ptr<Kernel> prepare_selu(const KernelContext& context) {
  const Node& node = context.node();
  return std::make_unique<UnaryKernel>(kSelu, Parameters{node.attr_float("alpha", 1.67326319217681884765625f),
                                                         node.attr_float("gamma", 1.05070102214813232421875f)});
}
std::unique_ptr<Kernel> prepare_shrink(const KernelContext& context) {
  const Node& node = context.node();
  return std::make_unique<UnaryKernel>(kShrink, Parameters{node.attr_float("lambd", 0.5f), node.attr_float("bias", 0)});
}
std::unique_ptr<Kernel> prepare_swish(const KernelContext& context) {
  const float alpha = context.node().attr_float("alpha", 1);
  return std::make_unique<UnaryKernel>(alpha == 1 ? kSilu : kSwish, Parameters{alpha, 0});
}
std::unique_ptr<Kernel> prepare_gelu(const KernelContext& context) {
  const std::string approximate = context.node().attr_string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    throw Error(Error::Kind::kInvalidModel, "approximate: expected none or tanh, got '" + approximate + "'");
  return std::make_unique<UnaryKernel>(approximate == "tanh" ? kGeluTanh : kGelu, Parameters{});
}

}  // namespace

std::vector<OpDef> ops_in_activation() {
  using C = const KernelContext&;
  return {
      {"", "Relu", 6, prepare_unary<kRelu>},
      {"", "LeakyRelu", 6, [](C c) { return parametric<kLeakyRelu>(c, 0.01f); }},
      {"", "ThresholdedRelu", 10, [](C c) { return parametric<kThresholdedRelu>(c, 1); }},
      {"", "Elu", 6, [](C c) { return parametric<kElu>(c, 1); }},
      {"", "Selu", 6, prepare_selu},
      {"", "Celu", 12, [](C c) { return parametric<kCelu>(c, 1); }},
      {"", "HardSigmoid", 6, [](C c) { return parametric<kHardSigmoid>(c, 0.2f, 0.5f); }},
      {"", "HardSwish", 14, prepare_unary<kHardSwish>},
      {"", "Sigmoid", 6, prepare_unary<kSigmoid>},
      {"", "Swish", 24, prepare_swish},
      {"", "Softplus", 1, prepare_unary<kSoftplus>},
      {"", "Softsign", 1, prepare_unary<kSoftsign>},
      {"", "Mish", 18, prepare_unary<kMish>},
      {"", "Gelu", 20, prepare_gelu},
      {"", "Shrink", 9, prepare_shrink},
      {"", "PRelu", 7, prepare<PReluKernel>},
  };
}

}  // namespace attune
