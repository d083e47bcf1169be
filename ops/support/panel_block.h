// What the kernels of PanelWeights are given; the same for all instruction sets.
#pragma once

#include "ops/support/panel_weights.h"

namespace attune {

// From so many rows on a product takes the time of its sums, not that of reading the weights.
constexpr int64_t kManyRows = 64;

// Rows of x rounded to 8 bits, or 13 stored in 16, for weights stored so: value r * padded_inner + ..., in the order of
// the weights' stored rows, zero where these are padding; a block of PanelWeights::activation_block() rows has the
// scale and the start (minus the weights' stored offset times the sum of the values) at [r * blocks + block].
struct Int8Rows {
  std::byte* values = nullptr;
  float* scales = nullptr;
  int32_t* starts = nullptr;
  int64_t blocks = 0;
};

struct PanelBlock {
  static constexpr int64_t kLine = 64;  // bytes that are fetched at once

  const PanelWeights* w;
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  const Epilogue* epilogue;
  int64_t row = 0;  // the first
  // Panels of floats or halves from panel `first_panel` on.
  const std::byte* panels = nullptr;
  int64_t first_panel = 0;
  Int8Rows int8_x = {};
  bool fetches = true;  // weights of integers ahead; else they are in a near cache
  // The row and panel that y begins with.
  int64_t y_row = 0, y_panel = 0;
  // If not null, the result isn't stored to y, but rounded for a product with `next` to `rounded`. Blocks of
  // activations of `next` are whole panels then.
  const PanelWeights* next = nullptr;
  Int8Rows rounded = {};
  // Weights that come next, fetched while those from panel `begin` on are multiplied: for each line of those
  // `next_step` bytes, a power of two. Null: none.
  const std::byte* next_weights = nullptr;
  int64_t next_step = 1, begin = 0;

  // Before panels from `first` on are multiplied with a group of rows that fetches nothing, and `groups` that fetch as
  // many panels as these.
  void fetch_next(int64_t first, int64_t groups) {
    begin = first;
    next_weights = nullptr;
    for (next_step = kLine / 2; next_step > 1 && next_step / 2 * groups >= kLine;) next_step /= 2;
  }
  // After each group of rows: `panels` panels of `lines` lines are fetched from `next` on.
  void advance_next(const std::byte* next, int64_t panels, int64_t lines) {
    const int64_t each = panels * lines * next_step, all = panels * lines * kLine;
    if (!next_weights) {
      next_weights = next;
    } else if (next_weights - next + each < all) {
      next_weights += each;
    } else {
      next_weights = nullptr;
    }
  }

  float* result(int64_t r, int64_t panel) const {
    return y + (row + r - y_row) * y_stride + (panel - y_panel) * PanelWeights::kPanel;
  }
};

// Rounds rows [begin, end) of b.x into b.int8_x.
void quantize_rows(const PanelBlock& b, int64_t begin, int64_t end);
// Panels [begin, end) of the product of `rows` rows of b.int8_x; with b.next whole blocks of its activations. vnni:
// with vpdpbusd or vpdpwssd, where has_vnni().
void multiply_int8(const PanelBlock& b, int64_t rows, int64_t begin, int64_t end, bool vnni);
// The processor multiplies and adds four bytes, or two words, at once (AVX512-VNNI or AVX-VNNI, for the instruction set
// in use).
bool has_vnni();

}  // namespace attune
