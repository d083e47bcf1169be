// Products of panels of integers with rows that are rounded to integers, exact in 32 bits within a block of rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/panel_int8.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>

#include "ops/support/panel_round-inl.h"
#include "ops/support/panel_store-inl.h"

#undef ATTUNE_HAS_BYTE_DOTS
#define ATTUNE_HAS_BYTE_DOTS (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

// Four bytes to a lane: those of one column of the weights (unsigned), or four values of x (signed) in all lanes; or
// two words, both signed. How they are multiplied and added to a lane of 32 bits:
enum class Dot {
  kVnni,      // vpdpbusd
  kPairs,     // vpmaddubsw, whose sums of two fit in 16 bits if the weights have 7 bits at most
  kWide,      // bytes widened to 16 bits, so that nothing can saturate
  kPortable,  // one after the other
  kWordVnni,  // vpdpwssd
  kWords,     // vpmaddwd
  kPortableWords,
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
HWY_INLINE Bytes<kDot> x_bytes(const std::byte* four) {
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
  } else if constexpr (kDot == Dot::kWordVnni) {
#if HWY_TARGET == HWY_AVX3
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(w.even.raw), "v"(x.even.raw));
#elif HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.raw) : "x"(w.even.raw), "x"(x.even.raw));
#endif
    return sum;
  } else if constexpr (kDot == Dot::kWords) {
#if HWY_TARGET == HWY_AVX3
    return hn::Add(sum, VI{_mm512_madd_epi16(w.even.raw, x.even.raw)});
#elif HWY_TARGET == HWY_AVX2
    return hn::Add(sum, VI{_mm256_madd_epi16(w.even.raw, x.even.raw)});
#endif
  } else if constexpr (kDot == Dot::kPortableWords) {
    const auto low = [](VI lanes) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(lanes)); };
    sum = hn::Add(sum, hn::Mul(low(w.even), low(x.even)));
    return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(w.even), hn::ShiftRight<16>(x.even)));
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

  // Row r begins with starts[r * stride].
  HWY_INLINE void start(const int32_t* starts, size_t stride) {
    const DI d;
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const VI first = hn::Set(d, starts[r * stride]);
#pragma GCC unroll 4
      for (size_t i = 0; i < kPanels * kVectors; ++i) {
        sum[0][i / kVectors][r][i % kVectors] = first;
        for (size_t s = 1; s < kSums; ++s) sum[s][i / kVectors][r][i % kVectors] = hn::Zero(d);
      }
    }
  }

  // Adds the sums to `total`, times the scale of row r, x_scales[r * stride], and kGrouped: those of the columns.
  template <bool kGrouped>
  HWY_INLINE void finish(const float* x_scales, size_t stride, const float* const (&w_scales)[kPanels],
                         VF (&total)[kPanels][kRows][kVectors]) const {
    const DF df;
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const VF x_scale = hn::Set(df, x_scales[r * stride]);
#pragma GCC unroll 4
      for (size_t i = 0; i < kPanels * kVectors; ++i) {
        const size_t q = i / kVectors, v = i % kVectors;
        VI all = sum[0][q][r][v];
        for (size_t s = 1; s < kSums; ++s) all = hn::Add(all, sum[s][q][r][v]);
        VF scale = x_scale;
        if constexpr (kGrouped) scale = hn::Mul(scale, hn::LoadU(df, w_scales[q] + v * kLanes));
        total[q][r][v] = hn::MulAdd(hn::ConvertTo(df, all), scale, total[q][r][v]);
      }
    }
  }

  HWY_INLINE void add(size_t s, const std::byte* const (&w)[kPanels], size_t offset, const std::byte* const (&x)[kRows],
                      size_t k) {
    // The accumulators leave few registers: of the fewer operands all are held, of the others one at a time.
    if constexpr (kPanels * kVectors < kRows) {
      Bytes<kDot> low[kPanels][kVectors], high[kPanels][kVectors];
      for (size_t p = 0; p < kPanels; ++p)
        for (size_t v = 0; v < kVectors; ++v) load_weights(w[p] + offset, v, low[p][v], high[p][v]);
      for (size_t r = 0; r < kRows; ++r) add_row(s, r, low, x_bytes<kDot>(x[r] + k));
      if constexpr (kIsInt4)
        for (size_t r = 0; r < kRows; ++r) add_row(s, r, high, x_bytes<kDot>(x[r] + k + 4));
    } else {
      Bytes<kDot> low_x[kRows], high_x[kRows];
      for (size_t r = 0; r < kRows; ++r) {
        low_x[r] = x_bytes<kDot>(x[r] + k);
        if constexpr (kIsInt4) high_x[r] = x_bytes<kDot>(x[r] + k + 4);
      }
      for (size_t p = 0; p < kPanels; ++p)
        for (size_t v = 0; v < kVectors; ++v) {
          Bytes<kDot> low, high;
          load_weights(w[p] + offset, v, low, high);
          for (size_t r = 0; r < kRows; ++r) sum[s][p][r][v] = add_dots(sum[s][p][r][v], low, low_x[r]);
          if constexpr (kIsInt4)
            for (size_t r = 0; r < kRows; ++r) sum[s][p][r][v] = add_dots(sum[s][p][r][v], high, high_x[r]);
        }
    }
  }

 private:
  // Four rows of a panel; of int4 the first four and the next four.
  static HWY_INLINE void load_weights(const std::byte* from, size_t v, Bytes<kDot>& low, Bytes<kDot>& high) {
    const DI d;
    const VI lanes = hn::Load(d, reinterpret_cast<const int32_t*>(from) + v * kLanes);
    if constexpr (kIsInt4) {
      const VI nibble = hn::Set(d, 0x0f0f0f0f);
      low = weight_bytes<kDot>(hn::And(lanes, nibble));
      high = weight_bytes<kDot>(hn::And(hn::ShiftRight<4>(lanes), nibble));
    } else {
      low = weight_bytes<kDot>(lanes);
    }
  }

  HWY_INLINE void add_row(size_t s, size_t r, const Bytes<kDot> (&w)[kPanels][kVectors], const Bytes<kDot>& x) {
    for (size_t p = 0; p < kPanels; ++p)
      for (size_t v = 0; v < kVectors; ++v) sum[s][p][r][v] = add_dots(sum[s][p][r][v], w[p][v], x);
  }
};

template <Storage kStorage, Dot kDot, size_t kRows, size_t kPanels, size_t kSums>
HWY_NOINLINE void multiply_block(const PanelBlock& b, int64_t p) {
  const DF df;
  // Rows of x are stepped through by bytes.
  constexpr size_t kValue = kStorage == Storage::kInt16 ? 2 : 1;
  constexpr size_t kStep = kStorage == Storage::kInt4 ? 8 : 4, kStepBytes = kPanel * 4;
  constexpr size_t kAhead = 8192;  // bytes of a panel that are fetched before they are needed
  const PanelWeights& weights = *b.w;
  const size_t padded = static_cast<size_t>(weights.padded_inner()) * kValue;
  const auto blocks = static_cast<size_t>(b.int8_x.blocks);
  const bool grouped = weights.groups() > 1;
  const size_t block_bytes = (static_cast<size_t>(weights.activation_block()) * kValue + kStep - 1) / kStep * kStep;
  const std::byte* w[kPanels];
  const float* w_scales[kPanels];
  for (size_t q = 0; q < kPanels; ++q) {
    w[q] = weights.panel(p + static_cast<int64_t>(q));
    w_scales[q] = weights.panel_scales(p + static_cast<int64_t>(q));
  }
  const size_t first = static_cast<size_t>(b.row) * blocks;
  const float* const x_scales = b.int8_x.scales + first;
  const int32_t* const starts = b.int8_x.starts + first;
  const std::byte* x[kRows];
  VF total[kPanels][kRows][kVectors];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    x[r] = b.int8_x.values + (static_cast<size_t>(b.row) + r) * padded;
#pragma GCC unroll 4
    for (size_t i = 0; i < kPanels * kVectors; ++i) total[i / kVectors][r][i % kVectors] = hn::Zero(df);
  }
  const size_t panel_bytes = padded / kStep * kStepBytes;
  fetch_result<kRows, kPanels>(b, p);
  size_t k = 0, offset = 0;
  for (size_t block = 0; block < blocks; ++block) {
    BlockSums<kStorage, kDot, kRows, kPanels, kSums> sums;
    sums.start(starts + block, blocks);
    const size_t end = std::min(padded, k + block_bytes);
    for (; k + kSums * kStep <= end; k += kSums * kStep, offset += kSums * kStepBytes) {
      // Behind the end of a panel comes the panel kPanels further on.
      const size_t fetched = offset + kAhead + (offset + kAhead < panel_bytes ? 0 : (kPanels - 1) * panel_bytes);
      for (size_t s = 0; s < kSums; ++s) {
        if (kRows < 4 || b.fetches)
          for (size_t q = 0; q < kPanels; ++q) hwy::Prefetch(w[q] + fetched + s * kStepBytes);
        sums.add(s, w, offset + s * kStepBytes, x, k + s * kStep);
      }
    }
    for (; k < end; k += kStep, offset += kStepBytes) sums.add(0, w, offset, x, k);
    if (grouped) {
      const float* scales[kPanels];
      for (size_t q = 0; q < kPanels; ++q) scales[q] = w_scales[q] + block * kPanel;
      sums.template finish<true>(x_scales + block, blocks, scales, total);
    } else {
      sums.template finish<false>(x_scales + block, blocks, w_scales, total);
    }
  }
  for (size_t q = 0; q < kPanels; ++q) {
    if (!grouped)
      for (size_t v = 0; v < kVectors; ++v) {
        const VF scale = hn::LoadU(df, w_scales[q] + v * kLanes);
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r) total[q][r][v] = hn::Mul(total[q][r][v], scale);
      }
    store_panel_rows(b, p + static_cast<int64_t>(q), total[q]);
  }
}

// Rows at once: as many sums as the registers hold beside the operands.
template <Dot kDot>
constexpr size_t kMaxRows = kVectors == 1                                  ? 12
                            : kVectors > 2                                 ? 2
                            : kDot == Dot::kVnni || kDot == Dot::kWordVnni ? 6
                                                                           : 4;
// Of many rows so many that the totals of blocks stay in registers, too; few rows read the weights as seldom as can be.
template <Dot kDot>
constexpr size_t kMaxOfMany = kVectors == 1 ? 6 : kMaxRows<kDot>;
constexpr size_t kMaxRounded = PanelWeights::kMostActivationBlock;
constexpr size_t sums_at_once(size_t rows) { return std::max<size_t>(1, 4 / (rows * kVectors)); }
constexpr size_t panels_at_once(size_t rows) { return kVectors == 1 && rows > 3 ? 2 : 1; }

template <Storage kStorage, Dot kDot, size_t kRows = kMaxRows<kDot>>
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

// As multiply_up_to(), for a result that is rounded: a block of it at a time stays in the first cache.
template <Storage kStorage, Dot kDot>
void multiply_and_round(int64_t rows, PanelBlock b, int64_t begin, int64_t end) {
  const PanelWeights& next = *b.next;
  const int64_t panels = next.activation_block() / kPanel, columns = panels * kPanel;
  HWY_ALIGN float result[kMaxRows<kDot> * kMaxRounded];
  b.y = result;
  b.y_stride = columns;
  b.y_row = b.row;
  for (int64_t p = begin; p < end; p += panels) {
    b.y_panel = p;
    multiply_up_to<kStorage, kDot>(static_cast<size_t>(rows), b, p, std::min(end, p + panels));
    const int64_t block = p / panels;
    if (next.storage() == Storage::kInt16) {
      round_blocks<int16_t>(next, b.rounded, b.row, rows, block, block + 1, result, columns);
    } else {
      round_blocks<int8_t>(next, b.rounded, b.row, rows, block, block + 1, result, columns);
    }
  }
}

// Panels [begin, end) of `rows` rows from b.row on. A stretch of panels that fits into the cache serves all groups of
// rows.
template <Storage kStorage, Dot kDot>
void multiply_panels(PanelBlock b, int64_t rows, int64_t begin, int64_t end) {
  const auto most = static_cast<int64_t>(rows >= kManyRows && !b.next ? kMaxOfMany<kDot> : kMaxRows<kDot>);
  const auto panel_bytes = static_cast<int64_t>(b.w->bytes()) / std::max<int64_t>(1, b.w->panels());
  const int64_t step = b.next ? b.next->activation_block() / kPanel : 2;
  const int64_t stretch =
      rows <= most ? std::max<int64_t>(1, end - begin)
                   : std::max<int64_t>({4, step, (256 << 10) / std::max<int64_t>(1, panel_bytes) / step * step});
  // As even as can be: few rows at once don't fill the units.
  const int64_t groups = std::max<int64_t>(1, (rows + most - 1) / most), group = (rows + groups - 1) / groups;
  const int64_t first = b.row, stop = b.row + rows;
  for (int64_t p = begin; p < end; p += stretch)
    for (b.row = first; b.row < stop; b.row += group) {
      b.fetches = b.row == first;
      const int64_t some = std::min(group, stop - b.row), last = std::min(end, p + stretch);
      if (b.next) {
        multiply_and_round<kStorage, kDot>(some, b, p, last);
      } else {
        multiply_up_to<kStorage, kDot>(static_cast<size_t>(some), b, p, last);
      }
    }
}

template <Dot kBytes, Dot kNibbles, Dot kWords>
void multiply_storage(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end) {
  if (b.w->storage() == Storage::kInt8) return multiply_panels<Storage::kInt8, kBytes>(b, rows, begin, end);
  if (b.w->storage() == Storage::kInt4) return multiply_panels<Storage::kInt4, kNibbles>(b, rows, begin, end);
  multiply_panels<Storage::kInt16, kWords>(b, rows, begin, end);
}

void multiply_int8(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end, bool vnni) {
#if ATTUNE_HAS_BYTE_DOTS
  if (vnni) return multiply_storage<Dot::kVnni, Dot::kVnni, Dot::kWordVnni>(b, rows, begin, end);
  multiply_storage<Dot::kWide, Dot::kPairs, Dot::kWords>(b, rows, begin, end);
#else
  (void)vnni;
  multiply_storage<Dot::kPortable, Dot::kPortable, Dot::kPortableWords>(b, rows, begin, end);
#endif
}

bool has_vnni() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif HWY_TARGET == HWY_AVX2
  // __builtin_cpu_supports of clang 14 doesn't know AVX-VNNI's name.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1U) != 0;
#else
  return false;
#endif
}

void quantize_rows(const PanelBlock& b, int64_t begin, int64_t end) {
  const float* x = b.x + begin * b.x_stride;
  if (b.w->storage() == Storage::kInt16) {
    round_blocks<int16_t>(*b.w, b.int8_x, begin, end - begin, 0, b.int8_x.blocks, x, b.x_stride);
  } else {
    round_blocks<int8_t>(*b.w, b.int8_x, begin, end - begin, 0, b.int8_x.blocks, x, b.x_stride);
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
