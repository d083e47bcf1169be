// Products of rows and a packed panel. Included once for each instruction set.
#if defined(ATTUNE_ATTENTION_MULTIPLY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_MULTIPLY_INL_H
#undef ATTUNE_ATTENTION_MULTIPLY_INL_H
#else
#define ATTUNE_ATTENTION_MULTIPLY_INL_H
#endif

#include <limits>

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

constexpr size_t kLanes = hn::MaxLanes(Floats());
constexpr size_t kVectors = static_cast<size_t>(kPanel) / kLanes;
// Rows of a product whose accumulators fit into the registers; with 16 lanes fewer, so that fewer stores wait for the
// end of a product, and what goes on beside it has registers.
constexpr int kRows = kVectors <= 2 ? 6 : kVectors <= 4 ? 3 : 1;

// What becomes of a product.
enum class Product {
  kStore,
  kAdd,     // to what is there
  kLargest  // stored, and its elements raise the maxima of the row, by lanes
};

// A matrix of kPanel columns.
struct Panel {
  const float* data;
  int64_t stride;  // from row to row
};

// Where a product of rows and a panel goes.
struct PanelResult {
  float* c;  // rows c_stride apart
  int64_t c_stride;
  float* largest = nullptr;  // rows kPanel apart
};

// Rows [first, first + count) of a block.
struct Rows {
  int64_t first, count;
};

// What goes on beside a product, a step for each kBeside of its own: nothing.
struct Nothing {
  static constexpr bool kAny = false;
  Nothing() = default;
  Nothing(Rows, const Scratch&) {}
  HWY_INLINE void finish() {}
  bool sums_are_within(float) const { return true; }
};
constexpr int64_t kBeside = 2;

// sums[r] += a[r] * panel, one row of it.
template <int R>
HWY_INLINE void add_row(const float* a, int64_t a_stride, const float* panel, Vector (&sums)[R][kVectors]) {
  Vector factors[R];
  for (int r = 0; r < R; ++r) factors[r] = hn::Set(Floats(), a[r * a_stride]);
  for (size_t v = 0; v < kVectors; ++v) {
    const Vector b = load(panel + v * kLanes);
    for (int r = 0; r < R; ++r) sums[r][v] = hn::MulAdd(factors[r], b, sums[r][v]);
  }
}

// c[r][j] (+)= sum_k a[r][k] panel[k][j], r < R, j < kPanel. Rows of a are a_stride apart.
template <int R, Product what, class Beside>
HWY_INLINE void multiply_rows(const float* a, int64_t a_stride, int64_t inner, Panel panel, const PanelResult& to,
                              Beside& beside) {
  Vector sums[R][kVectors];
  for (int r = 0; r < R; ++r)
    for (size_t v = 0; v < kVectors; ++v)
      sums[r][v] =
          what == Product::kAdd ? load(to.c + r * to.c_stride + static_cast<int64_t>(v * kLanes)) : hn::Zero(Floats());
  int64_t k = 0;
  if constexpr (Beside::kAny) {
    constexpr int64_t kOfRow = kBeside * Beside::kSteps;
    for (; k + kOfRow <= inner && beside.left(); k += kOfRow) {
      auto row = beside.start_row();
      for (int64_t i = k; i < k + kOfRow; i += kBeside) {
        for (int64_t j = 0; j < kBeside; ++j, panel.data += panel.stride)
          add_row<R>(a + i + j, a_stride, panel.data, sums);
        row.step();
      }
      beside.end_row(row);
    }
  }
  for (; k < inner; ++k, panel.data += panel.stride) add_row<R>(a + k, a_stride, panel.data, sums);
  for (int r = 0; r < R; ++r) {
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], Floats(), to.c + r * to.c_stride + static_cast<int64_t>(v * kLanes));
    if constexpr (what == Product::kLargest) {
      Vector largest = load(to.largest + r * kPanel);
      for (size_t v = 0; v < kVectors; ++v) largest = hn::Max(largest, sums[r][v]);
      hn::StoreU(largest, Floats(), to.largest + r * kPanel);
    }
  }
}

template <int R, Product what, class Beside>
HWY_INLINE int64_t multiply_groups(const float* a, int64_t a_stride, int64_t rows, int64_t inner, Panel panel,
                                   const PanelResult& to, int64_t r, Beside& beside) {
  for (; r + R <= rows; r += R)
    multiply_rows<R, what>(
        a + r * a_stride, a_stride, inner, panel,
        {to.c + r * to.c_stride, to.c_stride, what == Product::kLargest ? to.largest + r * kPanel : nullptr}, beside);
  return r;
}

// Rows of a are kStride apart unless that is 0.
template <Product what, int64_t kStride, class Beside>
void multiply(const float* a, int64_t any_stride, int64_t rows, int64_t inner, Panel panel, const PanelResult& to,
              Beside& beside) {
  const int64_t a_stride = kStride > 0 ? kStride : any_stride;
  Nothing nothing;
  // Two rows have too few sums to keep a core busy: the last eight are twice four.
  const int64_t by_six = kRows == 6 && rows > kRows && rows % kRows == 2 ? rows - 8 : rows;
  int64_t r = multiply_groups<kRows, what>(a, a_stride, by_six, inner, panel, to, 0, beside);
  if constexpr (kRows > 4) r = multiply_groups<4, what>(a, a_stride, rows, inner, panel, to, r, nothing);
  if constexpr (kRows > 2) r = multiply_groups<2, what>(a, a_stride, rows, inner, panel, to, r, nothing);
  multiply_groups<1, what>(a, a_stride, rows, inner, panel, to, r, nothing);
}

// Products of some of a block's queries, whose width is kWidth unless that is 0, and keys [first, first + columns).
template <Product what, int64_t kWidth, class Beside>
void multiply_keys(const AttentionProblem& p, const PackedHead& head, Rows rows, int64_t first, int64_t columns,
                   const Scratch& s, Beside& beside) {
  const int64_t width = kWidth > 0 ? kWidth : p.key_width;
  float* largest = s.largest + rows.first * kPanel;
  if constexpr (what == Product::kLargest) {
    const Vector none = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
    for (int64_t r = 0; r < rows.count; ++r) hn::StoreU(none, Floats(), largest + r * kPanel);
  }
  for (int64_t j = 0; j < columns; j += kPanel)
    multiply<what, kWidth>(s.queries + rows.first * width, width, rows.count, width,
                           {head.keys + (first + j) * width, kPanel},
                           {s.scores + rows.first * kKeys + j, kKeys, largest}, beside);
}

template <Product what, class Beside>
void multiply_keys(const AttentionProblem& p, const PackedHead& head, Rows rows, int64_t first, int64_t columns,
                   const Scratch& s, Beside& beside) {
  // The loop is faster where it needn't keep the distances of rows.
  constexpr int64_t kCommonWidth = 64;
  if (p.key_width == kCommonWidth) return multiply_keys<what, kCommonWidth>(p, head, rows, first, columns, s, beside);
  multiply_keys<what, 0>(p, head, rows, first, columns, s, beside);
}

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
