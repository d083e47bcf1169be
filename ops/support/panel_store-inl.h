// What comes after a product of panels: bias, activation, residual. Included once for each instruction set.
#if defined(ATTUNE_PANEL_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_PANEL_STORE_INL_H
#undef ATTUNE_PANEL_STORE_INL_H
#else
#define ATTUNE_PANEL_STORE_INL_H
#endif

#include <algorithm>
#include <initializer_list>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "ops/support/exponential-inl.h"
#include "ops/support/panel_block.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPanel = PanelWeights::kPanel;
using DF = hn::CappedTag<float, PanelWeights::kPanel>;
using VF = hn::Vec<DF>;
constexpr size_t kLanes = hn::MaxLanes(DF());
constexpr size_t kVectors = static_cast<size_t>(kPanel) / kLanes;  // vectors to a panel's row

// erf(x) as x P(x^2) / Q(x^2) with |x| clamped to 4: the rational minimax form that Eigen and XLA document for float,
// within 4 units in the last place.
HWY_INLINE VF erf(DF df, VF x) {
  x = hn::Clamp(x, hn::Set(df, -4.0F), hn::Set(df, 4.0F));
  const VF t = hn::Mul(x, x);
  const auto poly = [&](std::initializer_list<float> c) HWY_ATTR {
    VF s = hn::Set(df, *c.begin());
    for (const float* i = c.begin() + 1; i != c.end(); ++i) s = hn::MulAdd(s, t, hn::Set(df, *i));
    return s;
  };
  const VF p = poly({-2.72614225801306e-10F, 2.77068142495902e-08F, -2.10102402082508e-06F, -5.69250639462346e-05F,
                     -7.34990630326855e-04F, -2.95459980854025e-03F, -1.60960333262415e-02F});
  const VF q = poly({-1.45660718464996e-05F, -2.13374055278905e-04F, -1.68282697438203e-03F, -7.37332916720468e-03F,
                     -1.42647390514189e-02F});
  return hn::Div(hn::Mul(x, p), q);
}

HWY_INLINE VF sigmoid(DF df, VF x) {
  const VF one = hn::Set(df, 1.0F);
  // The bound comes first: of it and NaN the processors here give NaN.
  return hn::Div(one, hn::Add(one, exp_below(df, hn::Min(hn::Set(df, 88.0F), hn::Neg(x)))));
}

// Calls f(g), g(x) being the activation of a vector.
template <class F>
HWY_INLINE void with_activation(Activation a, F&& f) {
  const DF df;
  switch (a) {
    case Activation::kNone:
      return f([](VF x) HWY_ATTR { return x; });
    case Activation::kRelu:
      return f([df](VF x) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, hn::Zero(df))); });
    case Activation::kGelu:
      return f([df](VF x) HWY_ATTR {
        const VF e = erf(df, hn::Mul(x, hn::Set(df, 0.70710678118654752F)));
        return hn::Mul(hn::Mul(hn::Set(df, 0.5F), x), hn::Add(hn::Set(df, 1.0F), e));
      });
    case Activation::kGeluTanh:
      return f([df](VF x) HWY_ATTR {
        const VF cube = hn::Mul(hn::Mul(x, x), x);
        const VF u = hn::Mul(hn::Set(df, 0.79788456080286536F), hn::MulAdd(hn::Set(df, 0.044715F), cube, x));
        return hn::Mul(hn::Mul(hn::Set(df, 0.5F), x), hn::Add(hn::Set(df, 1.0F), hn::Tanh(df, u)));
      });
    case Activation::kSilu:
      return f([df](VF x) HWY_ATTR { return hn::Mul(x, sigmoid(df, x)); });
    case Activation::kTanh:
      return f([df](VF x) HWY_ATTR { return hn::Tanh(df, x); });
    case Activation::kSigmoid:
      return f([df](VF x) HWY_ATTR { return sigmoid(df, x); });
  }
}

// values[r * stride + i] = activation(...), r < rows, i < kPanel.
inline HWY_NOINLINE void activate_panel(Activation a, float* values, int64_t stride, size_t rows) {
  with_activation(a, [&](auto g) HWY_ATTR {
    const DF df;
    for (size_t r = 0; r < rows; ++r, values += stride)
      for (size_t v = 0; v < kVectors; ++v) hn::StoreU(g(hn::LoadU(df, values + v * kLanes)), df, values + v * kLanes);
  });
}

inline HWY_NOINLINE VF apply(Activation a, VF x) {
  with_activation(a, [&x](auto g) HWY_ATTR { x = g(x); });
  return x;
}

// Asks for the lines of the result that a block of many rows will write, while it computes: on two threads stores that
// miss hold products of few inputs up (2048 x 512 by 512 x 2048, int8: 3.9 ms, with it 3.3).
template <size_t kRows, size_t kPanels>
HWY_INLINE void fetch_result(const PanelBlock& b, int64_t panel) {
#if HWY_ARCH_X86
  if constexpr (kRows > 3) {
    const float* const y = b.result(0, panel);
    for (size_t r = 0; r < kRows; ++r)
      for (size_t q = 0; q < kPanels; ++q)
        asm volatile("prefetchw %0" ::"m"(y[static_cast<int64_t>(r) * b.y_stride + static_cast<int64_t>(q) * kPanel]));
  }
#else
  (void)b, (void)panel;
#endif
}

// Row `r` of panel `panel` of the result. The residual is read before y is written: it may be y.
HWY_INLINE void store_panel_row(const PanelBlock& b, int64_t panel, int64_t r, const VF (&sum)[kVectors]) {
  const DF df;
  const Epilogue& e = *b.epilogue;
  const int64_t column = panel * kPanel;
  const int64_t width = std::min(kPanel, b.w->columns() - column);
  float* y = b.result(r, panel);
  const float* bias = e.bias ? e.bias + column : nullptr;
  const float* residual = e.residual ? e.residual + (b.row + r) * e.residual_stride + column : nullptr;
  HWY_ALIGN float rest[3][kPanel];
  if (width < kPanel) {
    const auto whole = [&](const float* from, float* to) {
      if (!from) return from;
      std::fill(std::copy(from, from + width, to), to + kPanel, 0.0F);
      return static_cast<const float*>(to);
    };
    bias = whole(bias, rest[0]);
    residual = whole(residual, rest[1]);
  }
  float* to = width < kPanel ? rest[2] : y;
  for (size_t v = 0; v < kVectors; ++v) {
    VF value = sum[v];
    if (bias) value = hn::Add(value, hn::LoadU(df, bias + v * kLanes));
    if (e.activation == Activation::kRelu) {
      value = hn::IfThenElse(hn::IsNaN(value), value, hn::Max(value, hn::Zero(df)));
    } else if (e.activation != Activation::kNone) {
      value = apply(e.activation, value);
    }
    if (residual) value = hn::Add(value, hn::LoadU(df, residual + v * kLanes));
    hn::StoreU(value, df, to + v * kLanes);
  }
  if (width < kPanel) std::copy(to, to + width, y);
}

// kRows rows of panel `panel` of the result.
template <size_t kRows>
HWY_INLINE void store_panel_rows(const PanelBlock& b, int64_t panel, const VF (&sum)[kRows][kVectors]) {
  const DF df;
  const Epilogue& e = *b.epilogue;
  const int64_t column = panel * kPanel;
  const bool simple = e.activation == Activation::kNone || e.activation == Activation::kRelu;
  if (kRows == 1 || b.w->columns() - column < kPanel || (!simple && e.residual)) {
    for (size_t r = 0; r < kRows; ++r) store_panel_row(b, panel, static_cast<int64_t>(r), sum[r]);
    return;
  }
  VF bias[kVectors];
  for (size_t v = 0; v < kVectors; ++v)
    bias[v] = e.bias ? hn::LoadU(df, e.bias + column + static_cast<int64_t>(v * kLanes)) : hn::Zero(df);
  const bool relu = e.activation == Activation::kRelu;
  float* y = b.result(0, panel);
  const float* residual = e.residual ? e.residual + b.row * e.residual_stride + column : nullptr;
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      VF value = hn::Add(sum[r][v], bias[v]);
      if (relu) value = hn::IfThenElse(hn::IsNaN(value), value, hn::Max(value, hn::Zero(df)));
      const auto at = static_cast<int64_t>(v * kLanes);
      if (residual) value = hn::Add(value, hn::LoadU(df, residual + static_cast<int64_t>(r) * e.residual_stride + at));
      hn::StoreU(value, df, y + static_cast<int64_t>(r) * b.y_stride + at);
    }
  }
  if (!simple) activate_panel(e.activation, y, b.y_stride, kRows);
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
