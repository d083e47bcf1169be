// RoiAlign: regions pooled to a grid, each cell from bilinear samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// X (N, C, H, W), rois (R, 4) as x1, y1, x2, y2, batch_indices (R).
class RoiAlignKernel : public FloatKernel<RoiAlignKernel> {
 public:
  explicit RoiAlignKernel(const KernelContext& context)
      : height_(context.node().attr_int("output_height", 1)),
        width_(context.node().attr_int("output_width", 1)),
        ratio_(context.node().attr_int("sampling_ratio", 0)),
        scale_(static_cast<double>(context.node().attr_float("spatial_scale", 1.0F))),
        maximum_(context.node().attr_string("mode", "avg") == "max"),
        // Before opset 16 pixels lie at their corners, and a region is at least one pixel large.
        half_pixel_(context.opset() >= 16 &&
                    context.node().attr_string("coordinate_transformation_mode", "half_pixel") == "half_pixel") {}

 private:
  friend FloatKernel<RoiAlignKernel>;
  struct Region {
    double top, left, cell_height, cell_width;
    int64_t rows, columns;  // samples of a cell
  };

  Region region(const double* roi) const {
    const double shift = half_pixel_ ? 0.5 : 0.0;
    Region r{roi[1] * scale_ - shift, roi[0] * scale_ - shift, 0, 0, ratio_, ratio_};
    double height = roi[3] * scale_ - shift - r.top, width = roi[2] * scale_ - shift - r.left;
    if (!half_pixel_) {
      height = std::max(height, 1.0);
      width = std::max(width, 1.0);
    }
    r.cell_height = height / static_cast<double>(height_);
    r.cell_width = width / static_cast<double>(width_);
    if (ratio_ <= 0) {
      r.rows = static_cast<int64_t>(std::ceil(r.cell_height));
      r.columns = static_cast<int64_t>(std::ceil(r.cell_width));
    }
    return r;
  }

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &rois = call.input(1);
    expect_rank(x, 0, 4);
    if (rois.rank() != 2 || rois.dim(1) != 4) fail_input(1, "shape (regions,4)", rois.shape().to_string());
    const std::vector<int64_t> batch = call.input(2).to_int64();
    const int64_t count = rois.dim(0), channels = x.dim(1);
    if (static_cast<int64_t>(batch.size()) != count)
      fail_input(2, fmt::format("{} indices", count), std::to_string(batch.size()));
    for (const int64_t b : batch)
      if (b < 0 || b >= x.dim(0)) fail_input(2, fmt::format("indices below {}", x.dim(0)), std::to_string(b));
    const FloatView<T> in(x, call.pool());
    const FloatView<double> corners(rois, call.pool());
    FloatResult<T> y(call, 0, x.type(), {count, channels, height_, width_});
    parallel_items(count * channels, 32 * height_ * width_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Region r = region(corners.data() + i / channels * 4);
        const T* plane =
            in.data() + (batch[static_cast<size_t>(i / channels)] * channels + i % channels) * x.dim(2) * x.dim(3);
        for (int64_t cell = 0; cell < height_ * width_; ++cell)
          y.data()[i * height_ * width_ + cell] = static_cast<T>(pool(r, plane, x.dim(2), x.dim(3), cell));
      }
    });
    y.store(call);
  }

  template <class T>
  double pool(const Region& r, const T* plane, int64_t height, int64_t width, int64_t cell) const {
    const auto row = static_cast<double>(cell / width_), column = static_cast<double>(cell % width_);
    double sum = 0, best = 0;
    bool first = true;
    for (int64_t i = 0; i < r.rows; ++i)
      for (int64_t j = 0; j < r.columns; ++j) {
        const double y = r.top + (row + (static_cast<double>(i) + 0.5) / static_cast<double>(r.rows)) * r.cell_height;
        const double x =
            r.left + (column + (static_cast<double>(j) + 0.5) / static_cast<double>(r.columns)) * r.cell_width;
        const Sample s = sample(plane, height, width, y, x);
        sum += s.value;
        best = first ? s.largest : std::max(best, s.largest);
        first = false;
      }
    if (maximum_) return best;
    return r.rows * r.columns > 0 ? sum / static_cast<double>(r.rows * r.columns) : 0.0;
  }

  // The interpolated value, and the largest of its four weighted parts, which mode max takes.
  struct Sample {
    double value, largest;
  };

  template <class T>
  static Sample sample(const T* plane, int64_t height, int64_t width, double y, double x) {
    if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width)) return {0, 0};
    y = std::clamp(y, 0.0, static_cast<double>(height - 1));
    x = std::clamp(x, 0.0, static_cast<double>(width - 1));
    const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
    const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
    const double fy = y - static_cast<double>(top), fx = x - static_cast<double>(left);
    const auto at = [&](int64_t r, int64_t c) { return static_cast<double>(plane[r * width + c]); };
    const double parts[] = {(1 - fy) * (1 - fx) * at(top, left), (1 - fy) * fx * at(top, right),
                            fy * (1 - fx) * at(bottom, left), fy * fx * at(bottom, right)};
    return {parts[0] + parts[1] + parts[2] + parts[3], *std::max_element(std::begin(parts), std::end(parts))};
  }

  int64_t height_, width_, ratio_;
  double scale_;
  bool maximum_, half_pixel_;
};

}  // namespace

std::vector<OpDef> ops_in_roi_align();
std::vector<OpDef> ops_in_roi_align() { return {{"", "RoiAlign", 10, prepare<RoiAlignKernel>}}; }

}  // namespace attune
