// The SIMD kernels of PanelWeights, compiled once for each instruction set and chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/panel_multiply.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "ops/support/load_half-inl.h"
#include "ops/support/panel_block.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Storage = PanelWeights::Storage;

constexpr int64_t kPanel = PanelWeights::kPanel;
using DF = hn::CappedTag<float, PanelWeights::kPanel>;
using VF = hn::Vec<DF>;
constexpr size_t kLanes = hn::MaxLanes(DF());
constexpr size_t kVectors = static_cast<size_t>(kPanel) / kLanes;  // vectors to a panel's row

// Row `k` of a panel, vector `v` of it, as floats.
template <Storage kStorage, size_t kWidth = kLanes>
HWY_INLINE VF load_weights(const std::byte* panel, int64_t k, size_t v) {
  const DF df;
  const size_t at = static_cast<size_t>(k * kPanel) + v * kLanes;
  if constexpr (kStorage == Storage::kFloat32) {
    return hn::Load(df, reinterpret_cast<const float*>(panel) + at);
  } else if constexpr (kStorage == Storage::kFloat16) {
    return load_half(df, reinterpret_cast<const hwy::float16_t*>(panel) + at);
  } else if constexpr (kStorage == Storage::kBFloat16) {
    const hn::Rebind<hwy::bfloat16_t, DF> d16;
    return hn::PromoteTo(df, hn::Load(d16, reinterpret_cast<const hwy::bfloat16_t*>(panel) + at));
  } else if constexpr (kStorage == Storage::kInt4) {
    // A row's 8 bytes: columns 0..7 in the low nibbles, 8..15 in the high ones, offset by 8.
    const auto* row = reinterpret_cast<const uint8_t*>(panel + k * (kPanel / 2));
    const hn::Rebind<int32_t, DF> d32;
    hn::VFromD<decltype(d32)> wide;
#if HWY_MAX_BYTES >= 32
    constexpr bool kWholeRow = kWidth == kPanel;
#else
    constexpr bool kWholeRow = false;
#endif
    if constexpr (kWholeRow) {
#if HWY_MAX_BYTES >= 32
      const hn::CappedTag<uint8_t, kWidth / 2> d8;
      const hn::CappedTag<uint8_t, kWidth> d16;
      const auto bytes = hn::Load(d8, row);
      wide = hn::PromoteTo(d32, hn::Combine(d16, hn::ShiftRight<4>(bytes), hn::And(bytes, hn::Set(d8, 15))));
#endif
    } else {
      const hn::CappedTag<uint8_t, kWidth> d8;
      constexpr size_t kHalf = 8 / std::min<size_t>(kWidth, 8);  // vectors to half a row
      const auto bytes = hn::Load(d8, row + v % kHalf * kWidth);
      wide = hn::PromoteTo(d32, v < kHalf ? hn::And(bytes, hn::Set(d8, 15)) : hn::ShiftRight<4>(bytes));
    }
    return hn::ConvertTo(df, hn::Sub(wide, hn::Set(d32, 8)));
  } else {
    const hn::Rebind<int8_t, DF> d8;
    const hn::Rebind<int32_t, DF> d32;
    return hn::ConvertTo(df, hn::PromoteTo(d32, hn::Load(d8, reinterpret_cast<const int8_t*>(panel) + at)));
  }
}

HWY_INLINE void store_panel_row(const PanelBlock& b, int64_t panel, int64_t r, const VF (&sum)[kVectors]) {
  const DF df;
  const int64_t column = panel * kPanel;
  const int64_t width = std::min(kPanel, b.w->columns() - column);
  float* y = b.y + (b.row + r) * b.y_stride + column;
  if (width == kPanel) {
    for (size_t v = 0; v < kVectors; ++v) {
      VF value = sum[v];
      if (b.epilogue->bias) value = hn::Add(value, hn::LoadU(df, b.epilogue->bias + column + v * kLanes));
      hn::StoreU(value, df, y + v * kLanes);
    }
  } else {
    HWY_ALIGN float row[kPanel];
    for (size_t v = 0; v < kVectors; ++v) hn::Store(sum[v], df, row + v * kLanes);
    for (int64_t n = 0; n < width; ++n) y[n] = row[n] + (b.epilogue->bias ? b.epilogue->bias[column + n] : 0.0F);
  }
}

// kRows rows by kPanels panels from panel `p` on, over the whole inner dimension.
template <Storage kStorage, size_t kRows, size_t kPanels>
HWY_NOINLINE void multiply_block(const PanelBlock& b, int64_t p) {
  const DF df;
  const float* x[kRows];
  for (size_t r = 0; r < kRows; ++r) x[r] = b.x + (b.row + static_cast<int64_t>(r)) * b.x_stride;
  const int64_t inner = b.w->inner();
  constexpr bool kScaled = kStorage == Storage::kInt8 || kStorage == Storage::kInt4;
  if constexpr (!kScaled) {
    VF sum[kPanels][kRows][kVectors];
    const std::byte* panel[kPanels];
    for (size_t q = 0; q < kPanels; ++q) {
      panel[q] = b.w->panel(p + static_cast<int64_t>(q));
      for (size_t r = 0; r < kRows; ++r)
        for (size_t v = 0; v < kVectors; ++v) sum[q][r][v] = hn::Zero(df);
    }
    for (int64_t k = 0; k < inner; ++k) {
      if constexpr (kPanels == 1) {
        // One broadcast at a time: the accumulators leave few registers.
        VF w[kVectors];
        for (size_t v = 0; v < kVectors; ++v) w[v] = load_weights<kStorage>(panel[0], k, v);
        for (size_t r = 0; r < kRows; ++r) {
          const VF xr = hn::Set(df, x[r][k]);
          for (size_t v = 0; v < kVectors; ++v) sum[0][r][v] = hn::MulAdd(xr, w[v], sum[0][r][v]);
        }
      } else {
        VF xs[kRows];
        for (size_t r = 0; r < kRows; ++r) xs[r] = hn::Set(df, x[r][k]);
        for (size_t q = 0; q < kPanels; ++q)
          for (size_t v = 0; v < kVectors; ++v) {
            const VF w = load_weights<kStorage>(panel[q], k, v);
            for (size_t r = 0; r < kRows; ++r) sum[q][r][v] = hn::MulAdd(xs[r], w, sum[q][r][v]);
          }
      }
    }
    for (size_t q = 0; q < kPanels; ++q)
      for (size_t r = 0; r < kRows; ++r)
        store_panel_row(b, p + static_cast<int64_t>(q), static_cast<int64_t>(r), sum[q][r]);
  } else {
    for (size_t q = 0; q < kPanels; ++q) {
      const int64_t panel_index = p + static_cast<int64_t>(q);
      const std::byte* panel = b.w->panel(panel_index);
      const float* scales = b.w->panel_scales(panel_index);
      VF total[kRows][kVectors];
      for (size_t r = 0; r < kRows; ++r)
        for (size_t v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(df);
      for (int64_t g = 0; g < b.w->groups(); ++g) {
        VF sum[kRows][kVectors];
        for (size_t r = 0; r < kRows; ++r)
          for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(df);
        const int64_t end = std::min(inner, (g + 1) * b.w->group_rows());
        for (int64_t k = g * b.w->group_rows(); k < end; ++k) {
          for (size_t v = 0; v < kVectors; ++v) {
            const VF w = load_weights<kStorage>(panel, k, v);
            for (size_t r = 0; r < kRows; ++r) sum[r][v] = hn::MulAdd(hn::Set(df, x[r][k]), w, sum[r][v]);
          }
        }
        for (size_t v = 0; v < kVectors; ++v) {
          const VF scale = hn::LoadU(df, scales + static_cast<size_t>(g * kPanel) + v * kLanes);
          for (size_t r = 0; r < kRows; ++r) total[r][v] = hn::MulAdd(sum[r][v], scale, total[r][v]);
        }
      }
      for (size_t r = 0; r < kRows; ++r) store_panel_row(b, panel_index, static_cast<int64_t>(r), total[r]);
    }
  }
}

// Rows at once: as many accumulators as the registers hold.
constexpr size_t kMaxRows = kVectors == 1 ? 8 : kVectors == 2 ? 6 : 3;
constexpr size_t panels_at_once(size_t rows) {
  const size_t accumulators = kVectors == 1 ? 16 : 8;
  return std::max<size_t>(1, std::min<size_t>(4, accumulators / (rows * kVectors)));
}

template <Storage kStorage, size_t kRows>
void multiply_rows(const PanelBlock& b, int64_t begin, int64_t end) {
  constexpr size_t kAtOnce = panels_at_once(kRows);
  int64_t p = begin;
  for (; p + static_cast<int64_t>(kAtOnce) <= end; p += static_cast<int64_t>(kAtOnce))
    multiply_block<kStorage, kRows, kAtOnce>(b, p);
  for (; p < end; ++p) multiply_block<kStorage, kRows, 1>(b, p);
}

template <Storage kStorage, size_t kRows = kMaxRows>
void multiply_up_to(size_t rows, const PanelBlock& b, int64_t begin, int64_t end) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_up_to<kStorage, kRows - 1>(rows, b, begin, end);
  }
  multiply_rows<kStorage, kRows>(b, begin, end);
}

// Panels [begin, end) of all rows. A stretch of panels that fits into the cache serves all groups of rows.
template <Storage kStorage>
void multiply_panels(PanelBlock b, int64_t rows, int64_t begin, int64_t end) {
  const auto panel_bytes = static_cast<int64_t>(b.w->bytes()) / std::max<int64_t>(1, b.w->panels());
  const int64_t stretch = rows <= static_cast<int64_t>(kMaxRows)
                              ? end - begin
                              : std::max<int64_t>(4, (256 << 10) / std::max<int64_t>(1, panel_bytes));
  for (int64_t p = begin; p < end; p += stretch)
    for (b.row = 0; b.row < rows; b.row += static_cast<int64_t>(kMaxRows))
      multiply_up_to<kStorage>(static_cast<size_t>(std::min<int64_t>(kMaxRows, rows - b.row)), b, p,
                               std::min(end, p + stretch));
}

void multiply(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end) {
  switch (b.w->storage()) {
    case Storage::kFloat32:
      return multiply_panels<Storage::kFloat32>(b, rows, begin, end);
    case Storage::kFloat16:
      return multiply_panels<Storage::kFloat16>(b, rows, begin, end);
    case Storage::kBFloat16:
      return multiply_panels<Storage::kBFloat16>(b, rows, begin, end);
    case Storage::kInt8:
      return multiply_panels<Storage::kInt8>(b, rows, begin, end);
    case Storage::kInt4:
      return multiply_panels<Storage::kInt4>(b, rows, begin, end);
  }
}

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
  return hn::Div(one, hn::Add(one, hn::Exp(df, hn::Neg(x))));
}

HWY_INLINE VF apply(Activation a, DF df, VF x) {
  const VF half = hn::Set(df, 0.5F);
  switch (a) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, hn::Zero(df)));
    case Activation::kGelu: {
      const VF e = erf(df, hn::Mul(x, hn::Set(df, 0.70710678118654752F)));
      return hn::Mul(hn::Mul(half, x), hn::Add(hn::Set(df, 1.0F), e));
    }
    case Activation::kGeluTanh: {
      const VF cube = hn::Mul(hn::Mul(x, x), x);
      const VF u = hn::Mul(hn::Set(df, 0.79788456080286536F), hn::MulAdd(hn::Set(df, 0.044715F), cube, x));
      return hn::Mul(hn::Mul(half, x), hn::Add(hn::Set(df, 1.0F), hn::Tanh(df, u)));
    }
    case Activation::kSilu:
      return hn::Mul(x, sigmoid(df, x));
    case Activation::kTanh:
      return hn::Tanh(df, x);
    case Activation::kSigmoid:
      return sigmoid(df, x);
  }
  return x;
}

void activate(Activation a, float* values, int64_t count) {
  const DF df;
  constexpr auto lanes = static_cast<int64_t>(kLanes);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(apply(a, df, hn::LoadU(df, values + i)), df, values + i);
  if (i < count) {
    HWY_ALIGN float rest[kPanel] = {};
    std::copy(values + i, values + count, rest);
    hn::Store(apply(a, df, hn::Load(df, rest)), df, rest);
    std::copy(rest, rest + (count - i), values + i);
  }
}

void add_rows(const float* from, float* to, int64_t count) {
  const DF df;
  constexpr auto lanes = static_cast<int64_t>(kLanes);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(df, to + i), hn::LoadU(df, from + i)), df, to + i);
  for (; i < count; ++i) to[i] += from[i];
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace attune {
namespace {

// Below so many products a second thread costs more than it gains.
constexpr int64_t kParallelProducts = 1 << 16;

}  // namespace

HWY_EXPORT(multiply);
HWY_EXPORT(activate);
HWY_EXPORT(add_rows);
HWY_EXPORT(target_name);

void activate(Activation activation, float* values, int64_t count) {
  if (activation != Activation::kNone) HWY_DYNAMIC_DISPATCH(activate)(activation, values, count);
}

void PanelWeights::multiply(const float* x, int64_t x_stride, int64_t rows, float* y, int64_t y_stride,
                            const Epilogue& epilogue) const {
  const PanelBlock block{this, x, x_stride, y, y_stride, &epilogue};
  const auto stretch = [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(multiply)(block, rows, begin, end);
    const int64_t column = begin * kPanel, width = std::min(columns_, end * kPanel) - column;
    for (int64_t r = 0; r < rows; ++r) {
      float* out = y + r * y_stride + column;
      activate(epilogue.activation, out, width);
      if (epilogue.residual)
        HWY_DYNAMIC_DISPATCH(add_rows)(epilogue.residual + r * epilogue.residual_stride + column, out, width);
    }
  };
  const int64_t all = panels();
  if (inner_ * columns_ * rows < kParallelProducts || omp_in_parallel() || omp_get_max_threads() == 1) {
    stretch(0, all);
    return;
  }
#pragma omp parallel
  {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t begin = all * thread / threads, end = all * (thread + 1) / threads;
    if (begin < end) stretch(begin, end);
  }
}

const char* PanelWeights::instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace attune
#endif
