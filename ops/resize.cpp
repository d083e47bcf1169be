// Resize and Upsample: axis by axis, each output position is a weighted sum of input positions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/resize_axis.h"

namespace attune {
namespace {

// Which inputs a version of the operator has.
struct Inputs {
  size_t roi, scales, sizes;
};
constexpr size_t kNone = ~size_t{0};

class ResizeKernel : public Kernel {
 public:
  ResizeKernel(const Node& node, const Inputs& inputs, ResizeOptions options)
      : inputs_(inputs),
        options_(std::move(options)),
        axes_(node.attr_ints("axes")),
        policy_(node.attr_string("keep_aspect_ratio_policy", "stretch")) {
    if (const auto* scales = node.find<std::vector<float>>("scales")) scales_ = *scales;
  }

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    const std::vector<ResizedAxis> axes = resized_axes(call, x.shape());
    Shape shape = x.shape();
    for (const ResizedAxis& a : axes) shape[a.axis] = a.out;
    if (options_.mode == ResizeOptions::Mode::kNearest && options_.coordinates != "tf_crop_and_resize")
      return run_nearest(call, x, axes);
    const bool narrow_type = is_half(x.type());
    if (x.type() == DataType::kFloat || x.type() == DataType::kDouble || narrow_type) {
      dispatch_float(x.type(), [&]<class T>() { compute<T>(call, FloatView<T>(x, call.pool()), x, axes, shape); });
      return;
    }
    const Tensor wide = cast(x.to_contiguous(call.pool()), DataType::kDouble, call.pool());
    Tensor y = interpolate<double>(call, wide.data<double>(), x.shape(), axes);
    if (is_integer(x.type())) saturate(y, x.type());
    call.set_output(0, cast(y, x.type(), call.pool()));
  }

 private:
  template <class T>
  void compute(KernelCall& call, const FloatView<T>& in, const Tensor& x, const std::vector<ResizedAxis>& axes,
               const Shape& shape) const {
    const Tensor y = interpolate<T>(call, in.data(), x.shape(), axes);
    if (x.type() == kDataTypeOf<T>) return call.set_output(0, y);
    Tensor& out = call.output(0, x.type(), shape);
    if constexpr (std::is_same_v<T, float>) narrow(x.type(), y.data<float>(), out.mutable_raw(), out.count());
  }

  // The axes that change, or that a region cuts.
  std::vector<ResizedAxis> resized_axes(KernelCall& call, const Shape& in) const {
    std::vector<size_t> axes;
    if (axes_.empty()) {
      for (size_t i = 0; i < in.rank(); ++i) axes.push_back(i);
    } else {
      for (const int64_t a : axes_) axes.push_back(normalize_axis(a, in.rank()));
    }
    const auto list = [&](size_t input) {
      std::vector<double> values;
      if (input != kNone && call.has(input) && call.input(input).count() > 0) values = call.input(input).to_double();
      return values;
    };
    std::vector<double> scales = list(inputs_.scales), roi = list(inputs_.roi);
    const std::vector<double> sizes = list(inputs_.sizes);
    if (scales.empty() && sizes.empty()) scales.assign(scales_.begin(), scales_.end());
    const std::vector<double>& given = sizes.empty() ? scales : sizes;
    if (given.size() != axes.size())
      fail_input(sizes.empty() ? inputs_.scales : inputs_.sizes, fmt::format("{} values", axes.size()),
                 std::to_string(given.size()));
    if (roi.size() != 2 * axes.size()) roi.clear();
    const bool crop = options_.coordinates == "tf_crop_and_resize";
    if (crop && roi.empty()) fail_input(inputs_.roi, fmt::format("{} values", 2 * axes.size()), "none");

    std::vector<ResizedAxis> all;
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizedAxis a;
      a.axis = axes[i];
      a.in = in[axes[i]];
      if (crop) a.start = roi[i], a.end = roi[axes.size() + i];
      const auto size = static_cast<double>(a.in);
      const double out =
          sizes.empty() ? std::floor(size * (crop ? a.end - a.start : 1.0) * scales[i]) : std::floor(sizes[i]);
      a.scale = sizes.empty() ? scales[i] : out / size;
      if (a.in == 0 && out == 0) continue;  // nothing stays nothing
      constexpr double kMost = 0x1p53;
      if (!(out >= 0 && out < kMost) || !(a.scale > 0 && a.scale < kMost) || a.in == 0)
        fail_input(0, "positive sizes and scales", in.to_string());
      a.out = static_cast<int64_t>(out);
      all.push_back(a);
    }
    if (!sizes.empty() && policy_ != "stretch" && !all.empty()) keep_aspect_ratio(all);
    std::erase_if(all, [&](const ResizedAxis& a) { return a.in == a.out && a.scale == 1.0 && !crop; });
    return all;
  }

  void keep_aspect_ratio(std::vector<ResizedAxis>& axes) const {
    const auto less = [](const ResizedAxis& a, const ResizedAxis& b) { return a.scale < b.scale; };
    const double scale = policy_ == "not_larger" ? std::min_element(axes.begin(), axes.end(), less)->scale
                                                 : std::max_element(axes.begin(), axes.end(), less)->scale;
    for (ResizedAxis& a : axes) {
      a.scale = scale;
      a.out = static_cast<int64_t>(std::floor(scale * static_cast<double>(a.in) + 0.5));
    }
  }

  // Rounds to integers in the range of `type`: cubic interpolation may leave that of its operands.
  static void saturate(Tensor& numbers, DataType type) {
    const int bits = element_bits(type);
    const double high = std::ldexp(1.0, is_signed_integer(type) ? bits - 1 : bits) - 1;
    const double low = is_signed_integer(type) ? -high - 1 : 0;
    double* x = numbers.mutable_data<double>();
    for (int64_t i = 0; i < numbers.count(); ++i) x[i] = std::clamp(std::nearbyint(x[i]), low, high);
  }

  template <class T>
  Tensor interpolate(KernelCall& call, const T* from, const Shape& in, const std::vector<ResizedAxis>& axes) const {
    Shape shape = in;
    Tensor current = Tensor::allocate(kDataTypeOf<T>, in, call.pool());
    std::copy_n(from, in.count(), current.template mutable_data<T>());
    std::vector<std::pair<size_t, std::vector<bool>>> outside;
    for (const ResizedAxis& a : axes) {
      const AxisTaps taps = make_taps(a, options_);
      const int64_t outer = shape.count(0, a.axis), inner = shape.count(a.axis + 1, shape.rank()), n = a.in;
      shape[a.axis] = a.out;
      Tensor next = Tensor::allocate(kDataTypeOf<T>, shape, call.pool());
      const T* x = current.template data<T>();
      T* y = next.template mutable_data<T>();
      parallel_items(outer * a.out, inner * taps.count, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t o = row / a.out, p = row % a.out;
          T* to = y + row * inner;
          std::fill_n(to, inner, T{0});
          for (int64_t t = 0; t < taps.count; ++t) {
            const auto weight = static_cast<T>(taps.weight[static_cast<size_t>(p * taps.count + t)]);
            if (weight == 0) continue;
            const T* source = x + (o * n + taps.index[static_cast<size_t>(p * taps.count + t)]) * inner;
            for (int64_t i = 0; i < inner; ++i) to[i] += weight * source[i];
          }
        }
      });
      current = next;
      outside.emplace_back(a.axis, taps.outside);
    }
    for (const auto& [axis, flags] : outside) {
      const int64_t inner = shape.count(axis + 1, shape.rank()), n = shape[axis];
      for (int64_t row = 0; row < shape.count(0, axis + 1); ++row)
        if (flags[static_cast<size_t>(row % n)])
          std::fill_n(current.template mutable_data<T>() + row * inner, inner, static_cast<T>(options_.extrapolation));
    }
    return current;
  }

  // Elements of any type are copied.
  void run_nearest(KernelCall& call, const Tensor& x, const std::vector<ResizedAxis>& axes) const {
    Tensor current = x.to_contiguous(call.pool());
    const size_t width = static_cast<size_t>(element_bits(x.type())) / 8;
    if (width == 0) fail_type(x.type());
    for (const ResizedAxis& a : axes) {
      const AxisTaps taps = make_taps(a, options_);
      Shape shape = current.shape();
      const int64_t outer = shape.count(0, a.axis);
      const size_t inner = static_cast<size_t>(shape.count(a.axis + 1, shape.rank())) * width;
      shape[a.axis] = a.out;
      Tensor next = Tensor::allocate(x.type(), shape, call.pool());
      const std::byte* from = current.raw();
      std::byte* to = next.mutable_raw();
      parallel_items(outer * a.out, static_cast<int64_t>(inner), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t source = row / a.out * a.in + taps.index[static_cast<size_t>(row % a.out)];
          std::memcpy(to + static_cast<size_t>(row) * inner, from + static_cast<size_t>(source) * inner, inner);
        }
      });
      current = next;
    }
    call.set_output(0, current);
  }

  Inputs inputs_;
  ResizeOptions options_;
  std::vector<int64_t> axes_;
  std::string policy_;
  std::vector<float> scales_;  // Upsample-7's attribute
};

std::unique_ptr<Kernel> make_resize(const KernelContext& context) {
  return std::make_unique<ResizeKernel>(context.node(), Inputs{1, 2, 3}, ResizeOptions::of(context.node()));
}

// Resize-10 and Upsample: X and scales, coordinates asymmetric, nearest rounds down.
std::unique_ptr<Kernel> make_simple(const KernelContext& context) {
  ResizeOptions options;
  options.mode = ResizeOptions::mode_from_name(context.node().attr_string("mode", "nearest"));
  options.coordinates = "asymmetric";
  options.nearest = "floor";
  return std::make_unique<ResizeKernel>(context.node(), Inputs{kNone, 1, kNone}, options);
}

}  // namespace

std::vector<OpDef> ops_in_resize();
std::vector<OpDef> ops_in_resize() {
  return {{"", "Resize", 10, make_simple}, {"", "Resize", 11, make_resize}, {"", "Upsample", 7, make_simple}};
}

}  // namespace attune
