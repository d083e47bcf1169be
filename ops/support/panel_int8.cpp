// Products of int8 and int4 panels with rows that are rounded to 8 bits, exact in 32 bits within a block of rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/panel_int8.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ops/support/panel_store-inl.h"

#undef ATTUNE_HAS_BYTE_DOTS
#define ATTUNE_HAS_BYTE_DOTS (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

using Storage = PanelWeights::Storage;
using DI = hn::Rebind<int32_t, DF>;
using VI = hn::Vec<DI>;

// Four bytes to a lane: those of one column of the weights (unsigned), or four values of x (signed) in all lanes.
// How they are multiplied and added to a lane of 32 bits:
enum class Dot {
  kVnni,      // vpdpbusd
  kPairs,     // vpmaddubsw, whose sums of two fit in 16 bits if the weights have 7 bits at most
  kWide,      // bytes widened to 16 bits, so that nothing can saturate
  kPortable,  // one after the other
};

template <Dot kDot>
struct Bytes {
  VI even;  // kWide: bytes 0 and 2, as 16 bits; else all
  VI odd;   // kWide: bytes 1 and 3
};

template <Dot kDot>
HWY_INLINE Bytes<kDot> weight_bytes(VI lanes) {
#if ATTUNE_HAS_BYTE_DOTS
  if constexpr (kDot == Dot::kWide) {
    const DI d;
    const hn::Repartition<uint16_t, DI> u16;
    return {hn::And(lanes, hn::Set(d, 0x00ff00ff)), hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(u16, lanes)))};
  }
#endif
  return {lanes, lanes};
}

template <Dot kDot>
HWY_INLINE Bytes<kDot> x_bytes(const int8_t* four) {
  const DI d;
  int32_t bits;
  std::memcpy(&bits, four, 4);
  const VI all = hn::Set(d, bits);
#if ATTUNE_HAS_BYTE_DOTS
  if constexpr (kDot == Dot::kWide) {
    const auto shorts = hn::BitCast(hn::Repartition<int16_t, DI>(), all);
    return {hn::BitCast(d, hn::ShiftRight<8>(hn::ShiftLeft<8>(shorts))), hn::BitCast(d, hn::ShiftRight<8>(shorts))};
  }
#endif
  return {all, all};
}

template <Dot kDot>
HWY_INLINE VI add_dots(VI sum, const Bytes<kDot>& w, const Bytes<kDot>& x) {
  if constexpr (kDot == Dot::kVnni) {
#if HWY_TARGET == HWY_AVX3
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.even.raw), "v"(x.even.raw));
#elif HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(w.even.raw), "x"(x.even.raw));
#endif
    return sum;
  } else if constexpr (kDot == Dot::kPairs) {
#if HWY_TARGET == HWY_AVX3
    const __m512i pairs = _mm512_maddubs_epi16(w.even.raw, x.even.raw);
    return hn::Add(sum, VI{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
#elif HWY_TARGET == HWY_AVX2
    const __m256i pairs = _mm256_maddubs_epi16(w.even.raw, x.even.raw);
    return hn::Add(sum, VI{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
#endif
  } else if constexpr (kDot == Dot::kWide) {
#if HWY_TARGET == HWY_AVX3
    return hn::Add(hn::Add(sum, VI{_mm512_madd_epi16(w.even.raw, x.even.raw)}),
                   VI{_mm512_madd_epi16(w.odd.raw, x.odd.raw)});
#elif HWY_TARGET == HWY_AVX2
    return hn::Add(hn::Add(sum, VI{_mm256_madd_epi16(w.even.raw, x.even.raw)}),
                   VI{_mm256_madd_epi16(w.odd.raw, x.odd.raw)});
#endif
  } else {
    const VI byte = hn::Set(DI(), 255);
    const auto add = [&](VI w_byte, VI x_byte) HWY_ATTR { sum = hn::Add(sum, hn::Mul(hn::And(w_byte, byte), x_byte)); };
    add(w.even, hn::ShiftRight<24>(hn::ShiftLeft<24>(x.even)));
    add(hn::ShiftRight<8>(w.even), hn::ShiftRight<24>(hn::ShiftLeft<16>(x.even)));
    add(hn::ShiftRight<16>(w.even), hn::ShiftRight<24>(hn::ShiftLeft<8>(x.even)));
    add(hn::ShiftRight<24>(w.even), hn::ShiftRight<24>(x.even));
  }
  return sum;
}

// Sums of one block of rows, for kRows rows of x and kPanels panels. Independent sums hide the time that each takes.
template <Storage kStorage, Dot kDot, size_t kRows, size_t kPanels, size_t kSums>
struct BlockSums {
  static constexpr bool kIsInt4 = kStorage == Storage::kInt4;
  VI sum[kSums][kPanels][kRows][kVectors];

  HWY_INLINE void add(size_t s, const std::byte* const (&w)[kPanels], size_t offset, const int8_t* const (&x)[kRows],
                      size_t k) {
    const DI d;
    Bytes<kDot> low_x[kRows], high_x[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      low_x[r] = x_bytes<kDot>(x[r] + k);
      if constexpr (kIsInt4) high_x[r] = x_bytes<kDot>(x[r] + k + 4);
    }
    for (size_t p = 0; p < kPanels; ++p)
      for (size_t v = 0; v < kVectors; ++v) {
        const VI lanes = hn::Load(d, reinterpret_cast<const int32_t*>(w[p] + offset) + v * kLanes);
        if constexpr (kIsInt4) {
          const VI nibble = hn::Set(d, 0x0f0f0f0f);
          const auto low = weight_bytes<kDot>(hn::And(lanes, nibble));
          const auto high = weight_bytes<kDot>(hn::And(hn::ShiftRight<4>(lanes), nibble));
          for (size_t r = 0; r < kRows; ++r) sum[s][p][r][v] = add_dots(sum[s][p][r][v], low, low_x[r]);
          for (size_t r = 0; r < kRows; ++r) sum[s][p][r][v] = add_dots(sum[s][p][r][v], high, high_x[r]);
        } else {
          const auto bytes = weight_bytes<kDot>(lanes);
          for (size_t r = 0; r < kRows; ++r) sum[s][p][r][v] = add_dots(sum[s][p][r][v], bytes, low_x[r]);
        }
      }
  }
};

template <Storage kStorage, Dot kDot, size_t kRows, size_t kPanels, size_t kSums>
HWY_NOINLINE void multiply_block(const PanelBlock& b, int64_t p) {
  const DF df;
  const DI di;
  constexpr size_t kStep = kStorage == Storage::kInt8 ? 4 : 8, kStepBytes = kPanel * 4;
  constexpr size_t kAhead = 4096;  // bytes of a panel that are fetched before they are needed
  const PanelWeights& weights = *b.w;
  const auto padded = static_cast<size_t>(weights.padded_inner());
  const auto blocks = static_cast<size_t>(b.int8_x.blocks);
  const bool grouped = weights.groups() > 1;
  const auto block_rows = (static_cast<size_t>(weights.activation_block()) + kStep - 1) / kStep * kStep;
  const std::byte* w[kPanels];
  const float* w_scales[kPanels];
  for (size_t q = 0; q < kPanels; ++q) {
    w[q] = weights.panel(p + static_cast<int64_t>(q));
    w_scales[q] = weights.panel_scales(p + static_cast<int64_t>(q));
  }
  const int8_t* x[kRows];
  const float* x_scales[kRows];
  const int32_t* starts[kRows];
  VF total[kPanels][kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    const auto row = static_cast<size_t>(b.row) + r;
    x[r] = b.int8_x.values + row * padded;
    x_scales[r] = b.int8_x.scales + row * blocks;
    starts[r] = b.int8_x.starts + row * blocks;
    for (size_t q = 0; q < kPanels; ++q)
      for (size_t v = 0; v < kVectors; ++v) total[q][r][v] = hn::Zero(df);
  }
  size_t k = 0, offset = 0;
  for (size_t block = 0; block < blocks; ++block) {
    BlockSums<kStorage, kDot, kRows, kPanels, kSums> sums;
    for (size_t s = 0; s < kSums; ++s)
      for (size_t q = 0; q < kPanels; ++q)
        for (size_t r = 0; r < kRows; ++r)
          for (size_t v = 0; v < kVectors; ++v)
            sums.sum[s][q][r][v] = s == 0 ? hn::Set(di, starts[r][block]) : hn::Zero(di);
    const size_t end = std::min(padded, k + block_rows);
    for (; k + kSums * kStep <= end; k += kSums * kStep, offset += kSums * kStepBytes)
      for (size_t s = 0; s < kSums; ++s) {
        for (size_t q = 0; q < kPanels; ++q) hwy::Prefetch(w[q] + offset + s * kStepBytes + kAhead);
        sums.add(s, w, offset + s * kStepBytes, x, k + s * kStep);
      }
    for (; k < end; k += kStep, offset += kStepBytes) sums.add(0, w, offset, x, k);
    for (size_t q = 0; q < kPanels; ++q)
      for (size_t v = 0; v < kVectors; ++v) {
        const VF scale = grouped ? hn::LoadU(df, w_scales[q] + block * kPanel + v * kLanes) : hn::Set(df, 1.0F);
        for (size_t r = 0; r < kRows; ++r) {
          VI sum = sums.sum[0][q][r][v];
          for (size_t s = 1; s < kSums; ++s) sum = hn::Add(sum, sums.sum[s][q][r][v]);
          const VF x_scale = hn::Set(df, x_scales[r][block]);
          total[q][r][v] =
              hn::MulAdd(hn::ConvertTo(df, sum), grouped ? hn::Mul(scale, x_scale) : x_scale, total[q][r][v]);
        }
      }
  }
  for (size_t q = 0; q < kPanels; ++q)
    for (size_t r = 0; r < kRows; ++r) {
      if (!grouped)
        for (size_t v = 0; v < kVectors; ++v)
          total[q][r][v] = hn::Mul(total[q][r][v], hn::LoadU(df, w_scales[q] + v * kLanes));
      store_panel_row(b, p + static_cast<int64_t>(q), static_cast<int64_t>(r), total[q][r]);
    }
}

// Rows at once: as many sums as the registers hold.
constexpr size_t kMaxRows = kVectors == 1 ? 8 : kVectors == 2 ? 3 : 2;
constexpr size_t sums_at_once(size_t rows) { return std::max<size_t>(1, 4 / (rows * kVectors)); }
constexpr size_t panels_at_once(size_t rows) { return kVectors == 1 && rows > 3 ? 2 : 1; }

template <Storage kStorage, Dot kDot, size_t kRows = kMaxRows>
void multiply_up_to(size_t rows, const PanelBlock& b, int64_t begin, int64_t end) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_up_to<kStorage, kDot, kRows - 1>(rows, b, begin, end);
  }
  constexpr auto kAtOnce = static_cast<int64_t>(panels_at_once(kRows));
  int64_t p = begin;
  for (; p + kAtOnce <= end; p += kAtOnce)
    multiply_block<kStorage, kDot, kRows, static_cast<size_t>(kAtOnce), sums_at_once(kRows)>(b, p);
  for (; p < end; ++p) multiply_block<kStorage, kDot, kRows, 1, sums_at_once(kRows)>(b, p);
}

// Panels [begin, end) of all rows. A stretch of panels that fits into the cache serves all groups of rows.
template <Storage kStorage, Dot kDot>
void multiply_panels(PanelBlock b, int64_t rows, int64_t begin, int64_t end) {
  constexpr auto kRows = static_cast<int64_t>(kMaxRows);
  const auto panel_bytes = static_cast<int64_t>(b.w->bytes()) / std::max<int64_t>(1, b.w->panels());
  const int64_t stretch =
      rows <= kRows ? end - begin : std::max<int64_t>(4, (256 << 10) / std::max<int64_t>(1, panel_bytes));
  for (int64_t p = begin; p < end; p += stretch)
    for (b.row = 0; b.row < rows; b.row += kRows)
      multiply_up_to<kStorage, kDot>(static_cast<size_t>(std::min(kRows, rows - b.row)), b, p,
                                     std::min(end, p + stretch));
}

void multiply_int8(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end, bool vnni) {
  const bool is_int8 = b.w->storage() == Storage::kInt8;
#if ATTUNE_HAS_BYTE_DOTS
  if (vnni) {
    return is_int8 ? multiply_panels<Storage::kInt8, Dot::kVnni>(b, rows, begin, end)
                   : multiply_panels<Storage::kInt4, Dot::kVnni>(b, rows, begin, end);
  }
  return is_int8 ? multiply_panels<Storage::kInt8, Dot::kWide>(b, rows, begin, end)
                 : multiply_panels<Storage::kInt4, Dot::kPairs>(b, rows, begin, end);
#else
  (void)vnni;
  return is_int8 ? multiply_panels<Storage::kInt8, Dot::kPortable>(b, rows, begin, end)
                 : multiply_panels<Storage::kInt4, Dot::kPortable>(b, rows, begin, end);
#endif
}

bool has_vnni() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif HWY_TARGET == HWY_AVX2
  return __builtin_cpu_supports("avxvnni") != 0;
#else
  return false;
#endif
}

// One block of a row: gives the scale and the sum of the values. What isn't finite makes the scale NaN.
float quantize_block(const float* x, int64_t count, int8_t* to, int32_t* sum) {
  const DF df;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  constexpr auto lanes = static_cast<int64_t>(kLanes);
  VF largest = hn::Zero(df), not_finite = hn::Zero(df);
  int64_t i = 0;
  HWY_ALIGN float rest[kPanel] = {};
  std::copy(x + count / lanes * lanes, x + count, rest);
  const auto measure = [&](VF v) HWY_ATTR {
    largest = hn::Max(largest, hn::Abs(v));
    not_finite = hn::MulAdd(v, hn::Zero(df), not_finite);
  };
  for (; i + lanes <= count; i += lanes) measure(hn::LoadU(df, x + i));
  measure(hn::Load(df, rest));
  const float most = hn::GetLane(hn::MaxOfLanes(df, largest)), nan = hn::GetLane(hn::SumOfLanes(df, not_finite));
  const VF factor = hn::Set(df, most > 0 ? 127.0F / most : 0.0F);
  VI total = hn::Zero(di);
  const auto round = [&](VF v) HWY_ATTR {
    const VI values = hn::NearestInt(hn::Clamp(hn::Mul(v, factor), hn::Set(df, -127.0F), hn::Set(df, 127.0F)));
    total = hn::Add(total, values);
    return hn::DemoteTo(d8, values);
  };
  for (i = 0; i + lanes <= count; i += lanes) hn::StoreU(round(hn::LoadU(df, x + i)), d8, to + i);
  if (i < count) {
    HWY_ALIGN int8_t bytes[kPanel];
    hn::StoreU(round(hn::Load(df, rest)), d8, bytes);
    std::copy(bytes, bytes + (count - i), to + i);
  }
  *sum = hn::GetLane(hn::SumOfLanes(di, total));
  return most / 127.0F + nan;
}

void quantize_rows(const PanelBlock& b, int64_t begin, int64_t end) {
  const PanelWeights& w = *b.w;
  const int64_t block = w.activation_block(), padded = (block + w.row_step() - 1) / w.row_step() * w.row_step();
  const int32_t offset = w.storage() == Storage::kInt8 ? 128 : 8;
  for (int64_t r = begin; r < end; ++r) {
    int8_t* to = b.int8_x.values + r * w.padded_inner();
    int8_t* const row_end = to + w.padded_inner();
    for (int64_t i = 0; i < b.int8_x.blocks; ++i) {
      const int64_t count = std::min(block, w.inner() - i * block);
      int32_t sum = 0;
      b.int8_x.scales[r * b.int8_x.blocks + i] = quantize_block(b.x + r * b.x_stride + i * block, count, to, &sum);
      b.int8_x.starts[r * b.int8_x.blocks + i] = -offset * sum;
      int8_t* const next = std::min(to + padded, row_end);
      std::fill(to + count, next, int8_t{0});
      to = next;
    }
  }
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune {

HWY_EXPORT(multiply_int8);
HWY_EXPORT(has_vnni);
HWY_EXPORT(quantize_rows);

void multiply_int8(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end, bool vnni) {
  HWY_DYNAMIC_DISPATCH(multiply_int8)(b, rows, begin, end, vnni);
}

void quantize_rows(const PanelBlock& b, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(quantize_rows)(b, begin, end);
}

bool has_vnni() { return HWY_DYNAMIC_DISPATCH(has_vnni)(); }

}  // namespace attune
#endif
