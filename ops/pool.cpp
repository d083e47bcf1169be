// MaxPool, AveragePool, LpPool and their global forms; MaxUnpool.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/quantized.h"
#include "ops/support/window.h"

namespace attune {
namespace {

Shape spatial(const Tensor& x) {
  if (x.rank() < 3) fail_input(0, "rank 3 at least", x.shape().to_string());
  return x.shape().last(x.rank() - 2);
}

Shape with_channels(const Tensor& x, const Shape& out) {
  Shape shape = x.shape().first(2);
  for (const int64_t size : out) shape.push_back(size);
  return shape;
}

Shape kernel_shape(const std::vector<int64_t>& kernel, const Shape& in) {
  if (kernel.size() != in.rank())
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("kernel_shape: expected {} values, got {}", in.rank(), kernel.size()));
  return WindowAttributes::spread(kernel, "kernel_shape", in.rank(), 1);
}

class MaxPoolKernel : public Kernel {
 public:
  explicit MaxPoolKernel(const KernelContext& context)
      : attributes_(context.node()),
        kernel_(context.node().attr_ints("kernel_shape")),
        column_major_(context.node().attr_int("storage_order", 0) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    if (is_int8(x.type())) {
      dispatch<int8_t, uint8_t>(x.type(), [&]<class T>() {
        Tensor y = Tensor::allocate(x.type(), with_channels(x, window(x).out), call.pool());
        compute<T>(call, x, x.data<T>(), y.mutable_data<T>());
        call.set_output(0, std::move(y));
      });
      return;
    }
    dispatch_float(x.type(), [&]<class T>() {
      const FloatView<T> in(x, call.pool());
      FloatResult<T> y(call, 0, x.type(), with_channels(x, window(x).out));
      compute<T>(call, x, in.data(), y.data());
      y.store(call);
    });
  }

 private:
  Window window(const Tensor& x) const {
    return make_window(attributes_, spatial(x), kernel_shape(kernel_, spatial(x)));
  }

  template <class T>
  void compute(KernelCall& call, const Tensor& x, const T* in, T* out) const {
    const Window w = window(x);
    int64_t* indices = call.wants(1) && call.output_count() > 1
                           ? call.output(1, DataType::kInt64, with_channels(x, w.out)).template mutable_data<int64_t>()
                           : nullptr;
    const int64_t planes = x.dim(0) * x.dim(1), size = w.in_count(), positions = w.out_count();
    parallel_items(planes, positions * w.kernel_count(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for_each_position(w.out, [&](int64_t o, const Shape& at) {
          T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                        : std::numeric_limits<T>::lowest();
          int64_t where = -1;
          for_each_tap(w, at, [&](int64_t i, int64_t, bool inside) {
            if (!inside) return;
            const T v = in[p * size + i];
            if (where < 0 || v > best || v != v) best = v, where = i;
          });
          out[p * positions + o] = best;
          // A window with nothing but padding has no index.
          if (indices)
            indices[p * positions + o] = where < 0 ? -1 : p * size + (column_major_ ? transposed(w.in, where) : where);
        });
    });
  }

  // A row-major index as a column-major one.
  static int64_t transposed(const Shape& sizes, int64_t index) {
    int64_t result = 0, step = sizes.count();
    for (size_t i = sizes.rank(); i-- > 0;) {
      step /= sizes[i];
      result += index % sizes[i] * step;
      index /= sizes[i];
    }
    return result;
  }

  WindowAttributes attributes_;
  std::vector<int64_t> kernel_;
  bool column_major_;
};

enum class Mean { kAverage, kNorm };

template <Mean kMean>
class MeanPoolKernel : public FloatKernel<MeanPoolKernel<kMean>> {
 public:
  explicit MeanPoolKernel(const KernelContext& context)
      : attributes_(context.node()),
        kernel_(context.node().attr_ints("kernel_shape")),
        counts_padding_(context.node().attr_int("count_include_pad", 0) != 0),
        p_(static_cast<double>(context.node().attr_int("p", 2))) {}

 private:
  friend FloatKernel<MeanPoolKernel<kMean>>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const Window w = make_window(attributes_, spatial(x), kernel_shape(kernel_, spatial(x)));
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), with_channels(x, w.out));
    const int64_t planes = x.dim(0) * x.dim(1), size = w.in_count(), positions = w.out_count();
    parallel_items(planes, positions * w.kernel_count(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for_each_position(w.out, [&](int64_t o, const Shape& at) {
          double sum = 0;
          int64_t count = 0;
          for_each_tap(w, at, [&](int64_t i, int64_t, bool inside) {
            if (!inside) return;
            const auto v = static_cast<double>(in[p * size + i]);
            sum += kMean == Mean::kAverage ? v : std::pow(std::abs(v), p_);
            ++count;
          });
          if (kMean == Mean::kAverage) {
            if (counts_padding_) count = padded_taps(w, at);
            y.data()[p * positions + o] = static_cast<T>(count ? sum / static_cast<double>(count) : 0.0);
          } else {
            y.data()[p * positions + o] = static_cast<T>(std::pow(sum, 1 / p_));
          }
        });
    });
    y.store(call);
  }

  // Kernel positions on the input or its padding: with ceil_mode a window may reach beyond both.
  static int64_t padded_taps(const Window& w, const Shape& at) {
    int64_t count = 1;
    for (size_t i = 0; i < w.rank(); ++i) {
      int64_t taps = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k)
        if (at[i] * w.stride[i] + k * w.dilation[i] < w.pad_begin[i] + w.in[i] + w.pad_end[i]) ++taps;
      count *= taps;
    }
    return count;
  }

  WindowAttributes attributes_;
  std::vector<int64_t> kernel_;
  bool counts_padding_;
  double p_;
};

enum class Global { kMax, kAverage, kNorm };

template <Global kGlobal>
class GlobalPoolKernel : public FloatKernel<GlobalPoolKernel<kGlobal>> {
 public:
  explicit GlobalPoolKernel(const KernelContext& context) : p_(static_cast<double>(context.node().attr_int("p", 2))) {}

 private:
  friend FloatKernel<GlobalPoolKernel<kGlobal>>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    Shape ones = spatial(x);
    std::fill(ones.begin(), ones.end(), 1);
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), with_channels(x, ones));
    const int64_t planes = x.dim(0) * x.dim(1), size = spatial(x).count();
    parallel_items(planes, size, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* plane = in.data() + p * size;
        double value = kGlobal == Global::kMax ? -std::numeric_limits<double>::infinity() : 0.0;
        for (int64_t i = 0; i < size; ++i) {
          const auto v = static_cast<double>(plane[i]);
          if (kGlobal == Global::kMax) value = v > value || std::isnan(v) ? v : value;
          if (kGlobal == Global::kAverage) value += v / static_cast<double>(size);
          if (kGlobal == Global::kNorm) value += std::pow(std::abs(v), p_);
        }
        y.data()[p] = static_cast<T>(kGlobal == Global::kNorm ? std::pow(value, 1 / p_) : value);
      }
    });
    y.store(call);
  }

  double p_;
};

// X, I (indices into the flattened output), output_shape.
class MaxUnpoolKernel : public FloatKernel<MaxUnpoolKernel> {
 public:
  explicit MaxUnpoolKernel(const KernelContext& context)
      : kernel_(context.node().attr_ints("kernel_shape")),
        strides_(context.node().attr_ints("strides")),
        pads_(context.node().attr_ints("pads")) {}

 private:
  friend FloatKernel<MaxUnpoolKernel>;
  // Indices are those of the pooling's own input, that is of the shape the attributes give; a larger output_shape
  // places that at its origin.
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &indices = call.input(1);
    const Shape in = spatial(x);
    if (!(indices.shape() == x.shape())) fail_input(1, x.shape().to_string(), indices.shape().to_string());
    const Shape kernel = kernel_shape(kernel_, in),
                stride = WindowAttributes::spread(strides_, "strides", in.rank(), 1);
    expect_positive(kernel, "kernel sizes");
    expect_positive(stride, "strides");
    const Shape pads = WindowAttributes::spread(pads_, "pads", 2 * in.rank(), 0);
    Shape inferred = in;
    for (size_t i = 0; i < in.rank(); ++i)
      inferred[i] = (in[i] - 1) * stride[i] + kernel[i] - pads[i] - pads[in.rank() + i];
    Shape from = with_channels(x, inferred), shape = from;
    if (call.has(2)) {
      const auto given = call.input(2).to_int64();
      shape = Shape(std::span(given));
      if (shape.rank() != x.rank()) fail_input(2, fmt::format("{} sizes", x.rank()), shape.to_string());
    }
    const FloatView<T> in_values(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    std::fill_n(y.data(), shape.count(), T{0});
    const auto positions = indices.to_int64();
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < 0 || positions[i] >= from.count())
        fail_input(1, fmt::format("indices below {}", from.count()), std::to_string(positions[i]));
      const int64_t to = move(positions[i], from, shape);
      if (to >= 0) y.data()[to] = in_values[static_cast<int64_t>(i)];
    }
    y.store(call);
  }

  // The flat index in `to` of flat index `index` of `from`; -1 if it lies outside.
  static int64_t move(int64_t index, const Shape& from, const Shape& to) {
    int64_t result = 0, step = 1;
    for (size_t i = from.rank(); i-- > 0;) {
      const int64_t at = index % from[i];
      if (at >= to[i]) return -1;
      index /= from[i];
      result += at * step;
      step *= to[i];
    }
    return result;
  }

  std::vector<int64_t> kernel_, strides_, pads_;
};

}  // namespace

std::vector<OpDef> ops_in_pool();
std::vector<OpDef> ops_in_pool() {
  return {{"", "MaxPool", 1, prepare<MaxPoolKernel>},
          {"", "AveragePool", 1, prepare<MeanPoolKernel<Mean::kAverage>>},
          {"", "LpPool", 1, prepare<MeanPoolKernel<Mean::kNorm>>},
          {"", "GlobalMaxPool", 1, prepare<GlobalPoolKernel<Global::kMax>>},
          {"", "GlobalAveragePool", 1, prepare<GlobalPoolKernel<Global::kAverage>>},
          {"", "GlobalLpPool", 1, prepare<GlobalPoolKernel<Global::kNorm>>},
          {"", "MaxUnpool", 9, prepare<MaxUnpoolKernel>}};
}

}  // namespace attune
