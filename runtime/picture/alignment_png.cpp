#include <algorithm>

#include "runtime/picture/alignment.h"
#include "runtime/picture/canvas.h"
#include "runtime/picture/heatmap.h"

namespace attune {
namespace {

constexpr int kMargin = 16, kGap = 6;
constexpr int kCell = 22, kLabelled = 14;

int widest(Canvas& canvas, const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& l : labels) width = std::max(width, canvas.width_of(l));
  return width;
}

}  // namespace

std::string alignment_png(const AlignmentPicture& p, size_t head) {
  check(p);
  const auto rows = static_cast<int>(p.rows.size()), columns = static_cast<int>(p.columns.size());
  const int cell = std::clamp(Canvas::kLargest / std::max({1, rows, columns}), 1, kCell);
  const int step = (kLabelled + cell - 1) / cell;  // labels that would overlap are left out
  const int gap = cell > 4 ? 1 : 0;
  Canvas ruler(1, 1);
  const std::string title = title_of(p, head);
  const int left = kMargin + widest(ruler, p.rows) + kGap;
  const int top = kMargin + 24 + widest(ruler, p.columns) + kGap;
  const int width = std::max(left + columns * cell, ruler.width_of(title, true) + kMargin) + kMargin;
  Canvas canvas(width, top + rows * cell + kMargin);
  canvas.write(kMargin, kMargin + 6, title, false, true);
  canvas.fill(left - 1, top - 1, columns * cell + 1 + (1 - gap), rows * cell + 1 + (1 - gap), {208, 208, 208});
  for (int r = 0; r < rows; ++r) {
    const int y = top + r * cell;
    if (r % step == 0) canvas.write(left - kGap, y + cell / 2, p.rows[static_cast<size_t>(r)], true);
    for (int c = 0; c < columns; ++c)
      canvas.fill(left + c * cell, y, cell - gap, cell - gap,
                  colour_of(weight(p, head, static_cast<size_t>(r), static_cast<size_t>(c))));
  }
  for (int c = 0; c < columns; c += step)
    canvas.write_upwards(left + c * cell + cell / 2, top - kGap, p.columns[static_cast<size_t>(c)]);
  return canvas.png();
}

}  // namespace attune
