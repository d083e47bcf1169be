// GridSample: the input sampled at given coordinates, any number of spatial axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

class GridSampleKernel : public FloatKernel<GridSampleKernel> {
 public:
  explicit GridSampleKernel(const KernelContext& context)
      : align_corners_(context.node().attr_int("align_corners", 0) != 0) {
    const std::string mode = context.node().attr_string("mode", "linear"),
                      padding = context.node().attr_string("padding_mode", "zeros");
    if (mode == "nearest") {
      mode_ = Mode::kNearest;
    } else if (mode == "cubic" || mode == "bicubic") {
      mode_ = Mode::kCubic;
    } else if (mode != "linear" && mode != "bilinear") {
      throw Error(Error::Kind::kInvalidModel, fmt::format("unknown mode '{}'", mode));
    }
    if (padding == "border") {
      padding_ = Padding::kBorder;
    } else if (padding == "reflection") {
      padding_ = Padding::kReflection;
    } else if (padding != "zeros") {
      throw Error(Error::Kind::kInvalidModel, fmt::format("unknown padding_mode '{}'", padding));
    }
  }

 private:
  friend FloatKernel<GridSampleKernel>;
  // The input positions (-1: a zero) and weights that one coordinate meets on one axis.
  struct Taps {
    int count = 1;
    int64_t index[4] = {};
    double weight[4] = {1, 0, 0, 0};
  };

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &grid = call.input(1);
    const size_t rank = x.rank() < 3 ? 0 : x.rank() - 2;
    if (rank == 0) fail_input(0, "rank 3 at least", x.shape().to_string());
    if (grid.rank() != x.rank() || grid.dim(0) != x.dim(0) || grid.shape().back() != static_cast<int64_t>(rank))
      fail_input(1, fmt::format("({}, positions..., {})", x.dim(0), rank), grid.shape().to_string());
    Shape shape{x.dim(0), x.dim(1)};
    for (size_t i = 0; i < rank; ++i) shape.push_back(grid.dim(i + 1));
    const FloatView<T> in(x, call.pool()), coordinates(grid, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    const int64_t positions = shape.count(2, shape.rank()), channels = x.dim(1), size = x.shape().count(2, x.rank());
    const auto axes = static_cast<int64_t>(rank);
    parallel_items(x.dim(0) * positions, 16 * channels, [&](int64_t begin, int64_t end) {
      std::vector<Taps> taps(rank);
      for (int64_t p = begin; p < end; ++p) {
        const int64_t n = p / positions;
        // The last coordinate belongs to the first spatial axis.
        for (size_t a = 0; a < rank; ++a)
          taps[a] =
              make_taps(static_cast<double>(coordinates[p * axes + axes - 1 - static_cast<int64_t>(a)]), x.dim(a + 2));
        for (int64_t c = 0; c < channels; ++c)
          y.data()[(n * channels + c) * positions + p % positions] =
              static_cast<T>(sample(taps, 0, in.data() + (n * channels + c) * size, x.shape(), 0));
      }
    });
    y.store(call);
  }

  template <class T>
  static double sample(const std::vector<Taps>& taps, size_t axis, const T* plane, const Shape& shape, int64_t offset) {
    if (axis == taps.size()) return static_cast<double>(plane[offset]);
    double sum = 0;
    for (int t = 0; t < taps[axis].count; ++t)
      if (taps[axis].index[t] >= 0)
        sum +=
            taps[axis].weight[t] * sample(taps, axis + 1, plane, shape, offset * shape[axis + 2] + taps[axis].index[t]);
    return sum;
  }

  Taps make_taps(double coordinate, int64_t size) const {
    const auto n = static_cast<double>(size);
    double x = align_corners_ ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
    const double low = align_corners_ ? 0 : -0.5, high = align_corners_ ? n - 1 : n - 0.5;
    if (mode_ == Mode::kNearest) x = std::nearbyint(x);
    if (x < low || x > high || std::isnan(x)) {
      if (padding_ == Padding::kBorder) x = std::clamp(std::isnan(x) ? 0.0 : x, 0.0, n - 1);
      if (padding_ == Padding::kReflection) x = reflect(x, low, high);
    }
    Taps taps;
    if (!(std::abs(x) < 1e15)) {
      taps.index[0] = -1;
      return taps;
    }
    const double floor = std::floor(x), r = x - floor;
    const auto first = static_cast<int64_t>(floor);
    switch (mode_) {
      case Mode::kNearest:
        taps.index[0] = pixel(static_cast<int64_t>(x), size);
        break;
      case Mode::kLinear:
        taps.count = 2;
        for (int t = 0; t < 2; ++t) taps.index[t] = pixel(first + t, size);
        taps.weight[0] = 1 - r;
        taps.weight[1] = r;
        break;
      case Mode::kCubic:
        taps.count = 4;
        for (int t = 0; t < 4; ++t) {
          taps.index[t] = pixel(first + t - 1, size);
          taps.weight[t] = cubic(r - (t - 1));
        }
        break;
    }
    return taps;
  }

  // An integer position as an index; -1 where it is padded by zero.
  int64_t pixel(int64_t i, int64_t size) const {
    if (i >= 0 && i < size) return i;
    if (padding_ == Padding::kZeros) return -1;
    if (padding_ == Padding::kBorder) return std::clamp<int64_t>(i, 0, size - 1);
    const double low = align_corners_ ? 0 : -0.5, high = static_cast<double>(size) - (align_corners_ ? 1 : 0.5);
    return std::clamp<int64_t>(static_cast<int64_t>(reflect(static_cast<double>(i), low, high)), 0, size - 1);
  }

  static double reflect(double x, double low, double high) {
    const double range = high - low;
    if (range <= 0 || std::isnan(x) || std::isinf(x)) return 0;
    if (x < low) x = low + (low - x);
    const double turns = std::floor((x - low) / range), rest = (x - low) - turns * range;
    return std::fmod(turns, 2.0) == 0 ? low + rest : high - rest;
  }

  // Keys' kernel with a = -0.75.
  static double cubic(double x) {
    constexpr double a = -0.75;
    x = std::abs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
  }

  bool align_corners_;
  Mode mode_ = Mode::kLinear;
  Padding padding_ = Padding::kZeros;
};

}  // namespace

std::vector<OpDef> ops_in_grid_sample();
std::vector<OpDef> ops_in_grid_sample() { return {{"", "GridSample", 16, prepare<GridSampleKernel>}}; }

}  // namespace attune
