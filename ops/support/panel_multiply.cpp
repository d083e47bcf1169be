// The SIMD kernels of PanelWeights, compiled once for each instruction set and chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/panel_multiply.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/aligned_allocator.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "ops/support/load_half-inl.h"
#include "ops/support/panel_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Storage = PanelWeights::Storage;

// Row `k` of a panel, vector `v` of it, as floats.
template <Storage kStorage>
HWY_INLINE VF load_weights(const std::byte* panel, int64_t k, size_t v) {
  const DF df;
  const size_t at = static_cast<size_t>(k * kPanel) + v * kLanes;
  if constexpr (kStorage == Storage::kFloat32) {
    return hn::Load(df, reinterpret_cast<const float*>(panel) + at);
  } else if constexpr (kStorage == Storage::kFloat16) {
    return load_half(df, reinterpret_cast<const hwy::float16_t*>(panel) + at);
  } else {
    const hn::Rebind<hwy::bfloat16_t, DF> d16;
    return hn::PromoteTo(df, hn::Load(d16, reinterpret_cast<const hwy::bfloat16_t*>(panel) + at));
  }
}

// kRows rows by kPanels panels from panel `p` on, over the whole inner dimension. kNext: fetches b.next_weights.
template <Storage kStorage, size_t kRows, size_t kPanels, bool kNext = false>
HWY_NOINLINE void multiply_block(const PanelBlock& b, int64_t p) {
  const DF df;
  const float* x[kRows];
  for (size_t r = 0; r < kRows; ++r) x[r] = b.x + (b.row + static_cast<int64_t>(r)) * b.x_stride;
  const int64_t inner = b.w->inner();
  constexpr int64_t kRowBytes = kPanel * (kStorage == Storage::kFloat32 ? 4 : 2);
  constexpr int64_t kAhead = 4096;  // bytes of a panel that are fetched before they are needed
  constexpr bool kFetches = kRows > 1 || kStorage != Storage::kFloat32;  // one row is read as fast without (measured)
  const int64_t panel_bytes = inner * kRowBytes;
  VF sum[kPanels][kRows][kVectors];
  const std::byte* panel[kPanels];
  for (size_t q = 0; q < kPanels; ++q) {
    panel[q] = b.panels + (p - b.first_panel + static_cast<int64_t>(q)) * panel_bytes;
    for (size_t r = 0; r < kRows; ++r)
      for (size_t v = 0; v < kVectors; ++v) sum[q][r][v] = hn::Zero(df);
  }
  fetch_result<kRows, kPanels>(b, p);
  static_assert(!kNext || (kPanels <= 2 && kRowBytes == PanelBlock::kLine));
  const std::byte* next = kNext ? b.next_weights + (p - b.begin) * inner * b.next_step : nullptr;
  const int64_t next_mask = PanelBlock::kLine / (b.next_step * static_cast<int64_t>(kPanels)) - 1;
  for (int64_t k = 0; k < inner; ++k) {
    if constexpr (kNext) {
      if ((k & next_mask) == 0) {
        hwy::Prefetch(next);
        next += PanelBlock::kLine;
      }
    }
    if constexpr (kFetches) {
      // Behind the end of a panel comes the panel kPanels further on.
      const int64_t at = k * kRowBytes + kAhead,
                    fetched = at + (at < panel_bytes ? 0 : (static_cast<int64_t>(kPanels) - 1) * panel_bytes);
      for (size_t q = 0; q < kPanels; ++q) hwy::Prefetch(panel[q] + fetched);
    }
    if constexpr (kPanels * kVectors <= kRows) {
      // One broadcast at a time: the accumulators leave few registers.
      VF w[kPanels][kVectors];
      for (size_t q = 0; q < kPanels; ++q)
        for (size_t v = 0; v < kVectors; ++v) w[q][v] = load_weights<kStorage>(panel[q], k, v);
      for (size_t r = 0; r < kRows; ++r) {
        const VF xr = hn::Set(df, x[r][k]);
        for (size_t q = 0; q < kPanels; ++q)
          for (size_t v = 0; v < kVectors; ++v) sum[q][r][v] = hn::MulAdd(xr, w[q][v], sum[q][r][v]);
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
  for (size_t q = 0; q < kPanels; ++q) store_panel_rows(b, p + static_cast<int64_t>(q), sum[q]);
}

// int8 and int4 hold kStep rows together: four bytes of a column are a lane. A lane's byte or nibble J, sign extended.
template <int kBits, int kAt, class V>
HWY_INLINE VF widen(V lanes) {
  const hn::Rebind<int32_t, DF> d32;
  auto signed_lanes = hn::BitCast(d32, lanes);
  if constexpr (kAt + kBits < 32) signed_lanes = hn::ShiftLeft<32 - kBits - kAt>(signed_lanes);
  return hn::ConvertTo(DF(), hn::ShiftRight<32 - kBits>(signed_lanes));
}

// kStep rows of one panel, from `stored` on, for kRows rows of x.
template <Storage kStorage, size_t kRows, int... kJ>
HWY_INLINE void add_steps(const std::byte* stored, const float* const (&x)[kRows], std::integer_sequence<int, kJ...>,
                          VF (&sum)[kRows][kVectors]) {
  constexpr bool kIsInt8 = kStorage == Storage::kInt8;
  const DF df;
  const hn::Rebind<uint32_t, DF> du;
  for (size_t v = 0; v < kVectors; ++v) {
    const auto lanes = hn::Xor(hn::Load(du, reinterpret_cast<const uint32_t*>(stored) + v * kLanes),
                               hn::Set(du, kIsInt8 ? 0x80808080U : 0x88888888U));
    const auto add = [&]<int kIndex>(std::integral_constant<int, kIndex>) HWY_ATTR {
      const VF w = kIsInt8 ? widen<8, kIndex % 4 * 8>(lanes) : widen<4, kIndex % 4 * 8 + kIndex / 4 * 4>(lanes);
      for (size_t r = 0; r < kRows; ++r) sum[r][v] = hn::MulAdd(hn::Set(df, x[r][kIndex]), w, sum[r][v]);
    };
    (add(std::integral_constant<int, kJ>()), ...);
  }
}

template <Storage kStorage, size_t kRows>
HWY_NOINLINE void multiply_scaled_block(const PanelBlock& b, int64_t p) {
  const DF df;
  constexpr int kStep = kStorage == Storage::kInt8 ? 4 : 8;
  constexpr int64_t kStepBytes = kPanel * 4;
  const std::byte* stored = b.w->panel(p);
  const float* scales = b.w->panel_scales(p);
  VF total[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r)
    for (size_t v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(df);
  for (int64_t g = 0; g < b.w->groups(); ++g) {
    VF sum[kRows][kVectors];
    for (size_t r = 0; r < kRows; ++r)
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(df);
    const int64_t end = std::min(b.w->inner(), (g + 1) * b.w->group_rows());
    int64_t k = g * b.w->group_rows();
    const float* x[kRows];
    for (size_t r = 0; r < kRows; ++r) x[r] = b.x + (b.row + static_cast<int64_t>(r)) * b.x_stride + k;
    for (; k + kStep <= end; k += kStep, stored += kStepBytes) {
      add_steps<kStorage, kRows>(stored, x, std::make_integer_sequence<int, kStep>(), sum);
      for (size_t r = 0; r < kRows; ++r) x[r] += kStep;
    }
    if (k < end) {  // padded with zeros
      float rest[kRows][kStep] = {};
      for (size_t r = 0; r < kRows; ++r) x[r] = std::copy(x[r], x[r] + (end - k), rest[r]) - (end - k);
      add_steps<kStorage, kRows>(stored, x, std::make_integer_sequence<int, kStep>(), sum);
      stored += kStepBytes;
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const VF scale = hn::LoadU(df, scales + static_cast<size_t>(g * kPanel) + v * kLanes);
      for (size_t r = 0; r < kRows; ++r) total[r][v] = hn::MulAdd(sum[r][v], scale, total[r][v]);
    }
  }
  store_panel_rows(b, p, total);
}

// Rows at once: as many accumulators as the registers hold.
constexpr size_t kMaxRows = kVectors == 1 ? 12 : kVectors == 2 ? 6 : 3;
constexpr size_t panels_at_once(size_t rows) {
  const size_t accumulators = kVectors == 1 ? (rows > 8 ? 24 : 16) : 8;
  return std::max<size_t>(1, std::min<size_t>(4, accumulators / (rows * kVectors)));
}

template <Storage kStorage, size_t kRows>
void multiply_rows(const PanelBlock& b, int64_t begin, int64_t end) {
  if constexpr (kStorage == Storage::kInt8 || kStorage == Storage::kInt4) {
    for (int64_t p = begin; p < end; ++p) multiply_scaled_block<kStorage, kRows>(b, p);
    return;
  }
  constexpr size_t kAtOnce = panels_at_once(kRows);
  int64_t p = begin;
  if constexpr (kVectors == 1 && kRows == kMaxRows && kStorage == Storage::kFloat32) {
    if (b.next_weights)
      for (; p + static_cast<int64_t>(kAtOnce) <= end; p += static_cast<int64_t>(kAtOnce))
        multiply_block<kStorage, kRows, kAtOnce, true>(b, p);
  }
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

// Panels [begin, end) of `rows` rows from b.row on. All groups of rows but the first fetch their share of `next`, the
// panels that come after these, if it isn't null.
template <Storage kStorage>
void multiply_all_rows(PanelBlock b, int64_t rows, int64_t begin, int64_t end, const std::byte* next) {
  constexpr auto kMost = static_cast<int64_t>(kMaxRows);
  if (next) b.fetch_next(begin, (rows + kMost - 1) / kMost - 1);
  for (const int64_t stop = b.row + rows; b.row < stop; b.row += kMost) {
    multiply_up_to<kStorage>(static_cast<size_t>(std::min(kMost, stop - b.row)), b, begin, end);
    if (next) b.advance_next(next, end - begin, b.w->inner());
  }
}

// Panels [begin, end) as floats.
template <Storage kStorage>
void widen_panels(const PanelWeights& w, int64_t begin, int64_t end, float* to) {
  const DF df;
  for (int64_t p = begin; p < end; ++p)
    for (int64_t k = 0; k < w.inner(); ++k, to += kPanel)
      for (size_t v = 0; v < kVectors; ++v) hn::Store(load_weights<kStorage>(w.panel(p), k, v), df, to + v * kLanes);
}

// A stretch of panels that fits into the cache serves all groups of rows. Halves are widened once for all of them.
template <Storage kStorage>
void multiply_panels(PanelBlock b, int64_t rows, int64_t begin, int64_t end) {
  b.panels = b.w->panel(0);
  b.first_panel = 0;
  const std::byte* const after = std::exchange(b.next_weights, nullptr);
  if (rows <= static_cast<int64_t>(kMaxRows)) return multiply_all_rows<kStorage>(b, rows, begin, end, nullptr);
  constexpr bool kHalf = kStorage == Storage::kFloat16 || kStorage == Storage::kBFloat16;
  constexpr int64_t kCached = 256 << 10;
  const int64_t inner = std::max<int64_t>(1, b.w->inner());
  const int64_t panel_bytes = kStorage == Storage::kInt8   ? inner * kPanel
                              : kStorage == Storage::kInt4 ? inner * kPanel / 2
                                                           : inner * kPanel * 4;
  const int64_t stretch = std::max<int64_t>(4, kCached / std::max<int64_t>(1, panel_bytes) / 2 * 2);
  hwy::AlignedFreeUniquePtr<float[]> wide;
  if constexpr (kHalf) wide = hwy::AllocateAligned<float>(static_cast<size_t>(stretch * inner * kPanel));
  for (int64_t p = begin; p < end; p += stretch) {
    const int64_t stop = std::min(end, p + stretch);
    if constexpr (kHalf) {
      widen_panels<kStorage>(*b.w, p, stop, wide.get());
      b.panels = reinterpret_cast<const std::byte*>(wide.get());
      b.first_panel = p;
      multiply_all_rows<Storage::kFloat32>(b, rows, p, stop, nullptr);
    } else {
      multiply_all_rows<kStorage>(b, rows, p, stop, stop < end ? b.w->panel(stop) : after);
    }
  }
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
    case Storage::kInt16:  // its x is rounded always
      return;
  }
}

void activate(Activation a, float* values, int64_t count) {
  with_activation(a, [&](auto g) HWY_ATTR {
    const DF df;
    constexpr auto lanes = static_cast<int64_t>(kLanes);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(g(hn::LoadU(df, values + i)), df, values + i);
    if (i < count) {
      HWY_ALIGN float rest[kPanel] = {};
      std::copy(values + i, values + count, rest);
      hn::Store(g(hn::Load(df, rest)), df, rest);
      std::copy(rest, rest + (count - i), values + i);
    }
  });
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/support/any_order.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

// Below so many products a second thread costs more than it gains.
constexpr int64_t kParallelProducts = 1 << 16;

// A product of many rows is cut into tasks, each of a block of rows and a stretch of panels that stay in the second
// cache together. Cores take them as they come, since other work may slow one down, most with the rows of the one
// before.
struct Tasks {
  // step: panels that stay together.
  Tasks(const PanelWeights& w, int64_t rows, int64_t parts, int64_t step = 2) {
    constexpr int64_t kRowBytes = 192 << 10, kPanelBytes = 256 << 10, kRowStep = 12, kTasksEach = 4;
    const int64_t row_bytes = w.rounded_activations() ? w.padded_inner() * w.rounded_bytes() : w.inner() * 4;
    const int64_t panel_bytes =
        w.rounded_activations() ? static_cast<int64_t>(w.bytes()) / w.panels() : row_bytes * PanelWeights::kPanel;
    const int64_t cached_rows = std::max<int64_t>(1, kRowBytes / row_bytes);
    panels = std::max<int64_t>({4, step, kPanelBytes / panel_bytes / step * step});
    // Halves are widened once for all rows. Where few rows fit, it reads less to pass all rows by each stretch.
    const bool halves =
        w.storage() == PanelWeights::Storage::kFloat16 || w.storage() == PanelWeights::Storage::kBFloat16;
    row_blocks = halves || cached_rows < panels * PanelWeights::kPanel ? 1 : (rows + cached_rows - 1) / cached_rows;
    block_rows = ((rows + row_blocks - 1) / row_blocks + kRowStep - 1) / kRowStep * kRowStep;
    row_blocks = (rows + block_rows - 1) / block_rows;
    // Enough for all cores.
    const int64_t most = (w.panels() * row_blocks + parts * kTasksEach - 1) / (parts * kTasksEach);
    panels = std::max(step, std::min(panels, (most + step - 1) / step * step));
    stretches = (w.panels() + panels - 1) / panels;
  }

  int64_t block_rows, row_blocks, panels, stretches;
};

// Memory for `rows` rounded rows.
BufferRef make_int8_rows(const PanelWeights& w, int64_t rows, Int8Rows& x, BufferPool* pool) {
  x.blocks = (w.inner() + w.activation_block() - 1) / w.activation_block();
  const auto scales = static_cast<size_t>(rows * x.blocks);
  const auto values = static_cast<size_t>(rows * w.padded_inner() * w.rounded_bytes());
  const size_t bytes = scales * (sizeof(float) + sizeof(int32_t)) + values;
  const BufferRef memory = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  x.scales = reinterpret_cast<float*>(memory->data());
  x.starts = reinterpret_cast<int32_t*>(x.scales + scales);
  x.values = reinterpret_cast<std::byte*>(x.starts + scales);
  return memory;
}

}  // namespace

HWY_EXPORT(multiply);
HWY_EXPORT(activate);
HWY_EXPORT(target_name);

void activate(Activation activation, float* values, int64_t count) {
  if (activation != Activation::kNone) HWY_DYNAMIC_DISPATCH(activate)(activation, values, count);
}

namespace {

// Panels [begin, end) of `rows` rows from b.row on.
void run(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end) {
  if (b.w->rounded_activations()) {
    multiply_int8(b, rows, begin, end, has_vnni());
  } else {
    HWY_DYNAMIC_DISPATCH(multiply)(b, rows, begin, end);
  }
}

void run_tasks(const PanelBlock& block, int64_t rows, int64_t parts) {
  const Tasks tasks(*block.w, rows, parts, block.next ? block.next->activation_block() / PanelWeights::kPanel : 2);
  in_own_order(parts, tasks.row_blocks * tasks.stretches, [&](int, int64_t task, int64_t next) {
    PanelBlock b = block;
    if (next >= 0 && tasks.stretches > 1) b.next_weights = b.w->panel(next % tasks.stretches * tasks.panels);
    b.row = task / tasks.stretches * tasks.block_rows;
    const int64_t begin = task % tasks.stretches * tasks.panels;
    run(b, std::min(tasks.block_rows, rows - b.row), begin, std::min(b.w->panels(), begin + tasks.panels));
  });
}

}  // namespace

void PanelWeights::multiply(const float* x, int64_t x_stride, int64_t rows, float* y, int64_t y_stride,
                            const Epilogue& epilogue, BufferPool* pool) const {
  PanelBlock block{this, x, x_stride, y, y_stride, &epilogue};
  const bool serial = inner_ * columns_ * rows < kParallelProducts;
  BufferRef memory;
  if (rounded_activations_) {
    memory = make_int8_rows(*this, rows, block.int8_x, pool);
    if (serial) {
      quantize_rows(block, 0, rows);
    } else {
      parallel_items(rows, inner_, [&](int64_t begin, int64_t end) { quantize_rows(block, begin, end); });
    }
  }
  const int64_t all = panels();
  const int64_t parts = serial ? 1 : std::min<int64_t>(parallel_width(), all);
  if (serial || (parts == 1 && rows < kManyRows)) return run(block, rows, 0, all);
  // Few rows read each weight once, which is fastest as one stream a thread.
  if (rows < kManyRows) {
    parallel_parts(static_cast<int>(parts),
                   [&](int part) { run(block, rows, all * part / parts, all * (part + 1) / parts); });
    return;
  }
  run_tasks(block, rows, parts);
}

void PanelWeights::multiply_twice(const PanelWeights& first, const Epilogue& hidden, const PanelWeights& second,
                                  const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool) {
  const int64_t inner = second.inner();
  const bool rounds = first.rounded_activations() && second.rounded_activations() && rows >= kManyRows && inner > 0 &&
                      second.activation_block() % kPanel == 0 && second.activation_block() <= kMostActivationBlock;
  if (!rounds) {
    const auto bytes = static_cast<size_t>(rows * inner) * sizeof(float);
    const BufferRef memory = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
    auto* between = reinterpret_cast<float*>(memory->data());
    first.multiply(x, first.inner(), rows, between, inner, hidden, pool);
    return second.multiply(between, inner, rows, y, second.columns(), epilogue, pool);
  }
  PanelBlock a{&first, x, first.inner(), nullptr, 0, &hidden}, b{&second, nullptr, 0, y, second.columns(), &epilogue};
  const BufferRef x_memory = make_int8_rows(first, rows, a.int8_x, pool),
                  memory = make_int8_rows(second, rows, b.int8_x, pool);
  parallel_items(rows, first.inner(), [&](int64_t begin, int64_t end) { quantize_rows(a, begin, end); });
  a.next = &second;
  a.rounded = b.int8_x;
  run_tasks(a, rows, std::min<int64_t>(parallel_width(), first.panels()));
  run_tasks(b, rows, std::min<int64_t>(parallel_width(), second.panels()));
}

const char* PanelWeights::instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace attune
#endif
