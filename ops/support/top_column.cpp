#include "ops/support/top_column.h"

#include <algorithm>
#include <limits>

#include "ops/support/parallel.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

constexpr int64_t kStretch = 64 * PanelWeights::kPanel;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Best {
  float value = kMinusInfinity;
  int64_t column = 0;

  // Columns come in ascending order.
  void take(float v, int64_t c) {
    if (v > value) *this = {v, c};
  }
};

}  // namespace

StretchedWeights::StretchedWeights(std::shared_ptr<const PanelWeights> whole) : whole_(std::move(whole)) {
  const PanelWeights& w = *whole_;
  const size_t panel_scales = w.scales().size() / static_cast<size_t>(w.panels());
  for (int64_t first = 0; first < w.columns(); first += kStretch) {
    PanelWeights::Header header = w.header();
    header.columns = std::min(kStretch, w.columns() - first);
    const auto panels = static_cast<size_t>((header.columns + PanelWeights::kPanel - 1) / PanelWeights::kPanel);
    const auto begin = static_cast<size_t>(first / PanelWeights::kPanel);
    BufferRef scales;
    if (panel_scales > 0)
      scales = BufferRef::view(w.scales().data() + begin * panel_scales, panels * panel_scales, whole_);
    stretches_.push_back(PanelWeights::from_parts(
        header,
        BufferRef::view(w.panel(static_cast<int64_t>(begin)), panels * static_cast<size_t>(header.panel_bytes), whole_),
        std::move(scales)));
  }
}

void StretchedWeights::top_column(const float* x, int64_t rows, const float* bias, std::span<const int64_t> excluded,
                                  int64_t* columns, BufferPool* pool) const {
  const auto all = static_cast<int64_t>(stretches_.size());
  const auto parts = static_cast<int>(std::min<int64_t>(parallel_width(), all));
  const size_t bytes = static_cast<size_t>(parts * rows * kStretch) * sizeof(float);
  const BufferRef memory = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  std::vector<Best> best(static_cast<size_t>(parts * rows));
  parallel_parts(parts, [&](int part) {
    float* y = reinterpret_cast<float*>(memory->data()) + part * rows * kStretch;
    Best* own = best.data() + part * rows;
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; ++i) {
      const PanelWeights& w = stretches_[static_cast<size_t>(i)];
      const int64_t first = i * kStretch, n = w.columns();
      w.multiply(x, inner(), rows, y, kStretch, {.bias = bias ? bias + first : nullptr}, pool);
      const auto begin = std::lower_bound(excluded.begin(), excluded.end(), first);
      const auto end = std::lower_bound(begin, excluded.end(), first + n);
      for (int64_t r = 0; r < rows; ++r) {
        float* row = y + r * kStretch;
        for (auto it = begin; it != end; ++it) row[*it - first] = kMinusInfinity;
        const int64_t c = argmax_row(row, n);
        own[r].take(row[c], first + c);
      }
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    Best whole;
    for (int part = 0; part < parts; ++part) {
      const Best& b = best[static_cast<size_t>(part * rows + r)];
      whole.take(b.value, b.column);
    }
    columns[r] = whole.column;
  }
}

}  // namespace attune
