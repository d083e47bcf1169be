// MatMulInteger, QLinearMatMul, and ONNX Runtime's DynamicQuantizeMatMul and MatMulIntegerToFloat.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/dynamic_quantize.h"
#include "ops/support/float_tensor.h"
#include "ops/support/int8_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/product.h"

namespace attune {
namespace {

bool is_int8(DataType type) { return type == DataType::kInt8 || type == DataType::kUInt8; }

std::vector<int32_t> zero_points(const Tensor* t) {
  if (!t) return {0};
  const auto values = t->to_int64();
  return {values.begin(), values.end()};
}

// The integer product of the forms: operands of rank 1 at least, batch axes broadcast, weights packed once if constant.
class IntegerMatMul {
 public:
  IntegerMatMul(const KernelContext& context, size_t b) {
    const Tensor* w = context.constant(b);
    if (w && w->rank() == 2 && is_int8(w->type()))
      weights_ = Int8Weights::pack(w->raw(), w->type(), w->dim(0), w->dim(1));
  }

  struct Operand {
    const Tensor& values;
    size_t input;  // its index, for errors
    const Tensor* zero;
    size_t zero_input;
  };

  // Shape of the result: as MatMul's.
  static Shape result_shape(const Tensor& a, const Tensor& b) {
    Shape x = a.shape(), w = b.shape();
    if (a.rank() == 1) x.insert(0, 1);
    if (b.rank() == 1) w.push_back(1);
    Shape shape = broadcast_batch(x, w);
    if (a.rank() > 1) shape.push_back(x[x.rank() - 2]);
    if (b.rank() > 1) shape.push_back(w.back());
    return shape;
  }

  void run(KernelCall& call, const Operand& a, const Operand& b, int32_t* y) const {
    check(a);
    check(b);
    Shape x = a.values.shape(), w = b.values.shape();
    if (x.rank() == 1) x.insert(0, 1);
    if (w.rank() == 1) w.push_back(1);
    const int64_t k = x.back(), m = x[x.rank() - 2], n = w.back();
    if (w[w.rank() - 2] != k)
      throw Error(
          Error::Kind::kInvalidArgument,
          fmt::format("inner sizes differ: {} times {}", a.values.shape().to_string(), b.values.shape().to_string()));
    const Tensor xt = a.values.to_contiguous(call.pool()), wt = b.values.to_contiguous(call.pool());
    const std::vector<int32_t> x_zero = zero_points(a.zero), w_zero = zero_points(b.zero);
    if (x_zero.size() != 1 && static_cast<int64_t>(x_zero.size()) != x.count(0, x.rank() - 1) &&
        static_cast<int64_t>(x_zero.size()) != m)
      fail_input(a.zero_input, fmt::format("1 or {} values", m), a.zero->shape().to_string());

    if (w.count(0, w.rank() - 2) == 1) {
      if (w_zero.size() != 1 && static_cast<int64_t>(w_zero.size()) != n)
        fail_input(b.zero_input, fmt::format("1 or {} values", n), b.zero->shape().to_string());
      const int64_t rows = x.count(0, x.rank() - 1);
      const Int8Weights made = weights_ ? Int8Weights{} : Int8Weights::pack(wt.raw(), wt.type(), k, n);
      product_.run(xt.raw(), xt.type(), rows, repeated(x_zero, rows), weights_ ? *weights_ : made, w_zero, y,
                   call.pool());
      return;
    }
    run_batch(call, xt, wt, x, w, x_zero, w_zero, y);
  }

  std::string implementation() const { return product_.implementation(); }

 private:
  static void check(const Operand& o) {
    if (!is_int8(o.values.type())) fail_input(o.input, "int8 or uint8", name(o.values.type()));
    if (o.values.rank() == 0) fail_input(o.input, "rank 1 at least", "a scalar");
    if (o.zero && o.zero->type() != o.values.type())
      fail_input(o.zero_input, name(o.values.type()), name(o.zero->type()));
  }

  static std::vector<int32_t> repeated(const std::vector<int32_t>& zero, int64_t rows) {
    if (zero.size() == 1 || static_cast<int64_t>(zero.size()) == rows) return zero;
    std::vector<int32_t> all(static_cast<size_t>(rows));
    for (size_t i = 0; i < all.size(); ++i) all[i] = zero[i % zero.size()];
    return all;
  }

  // Zero points of matrix `batch` of a (rows of a, or columns of b, `width` each).
  static std::vector<int32_t> part(const std::vector<int32_t>& zero, int64_t batch, int64_t width) {
    const auto w = static_cast<size_t>(width);
    if (zero.size() <= w) return zero;
    const auto from = zero.begin() + static_cast<std::ptrdiff_t>(batch * width);
    return {from, from + static_cast<std::ptrdiff_t>(w)};
  }

  void run_batch(KernelCall& call, const Tensor& xt, const Tensor& wt, const Shape& x, const Shape& w,
                 const std::vector<int32_t>& x_zero, const std::vector<int32_t>& w_zero, int32_t* y) const {
    const Shape batch = broadcast_batch(x, w);
    const int64_t k = x.back(), m = x[x.rank() - 2], n = w.back();
    const auto index = [&](const Shape& s, int64_t flat) {
      int64_t offset = 0, step = 1;
      for (size_t i = 0; i < batch.rank(); ++i) {
        const size_t axis = batch.rank() - 1 - i;
        const int64_t at = flat % batch[axis];
        flat /= batch[axis];
        if (i + 2 >= s.rank()) continue;
        const int64_t size = s[s.rank() - 3 - i];
        if (size != 1) offset += at * step;
        step *= size;
      }
      return offset;
    };
    for (int64_t i = 0; i < batch.count(); ++i) {
      const int64_t ia = index(x, i), ib = index(w, i);
      const Int8Weights packed = Int8Weights::pack(wt.raw() + ib * k * n, wt.type(), k, n);
      product_.run(xt.raw() + ia * m * k, xt.type(), m, part(x_zero, ia, m), packed, part(w_zero, ib, n), y + i * m * n,
                   call.pool());
    }
  }

  std::optional<Int8Weights> weights_;
  Int8Product product_;
};

// A, B, a_zero_point, b_zero_point.
class MatMulIntegerKernel : public Kernel {
 public:
  explicit MatMulIntegerKernel(const KernelContext& context) : product_(context, 1) {}
  void run(KernelCall& call) const override {
    const Tensor &a = call.input(0), &b = call.input(1);
    const Tensor *a_zero = call.optional_input(2), *b_zero = call.optional_input(3);
    Tensor& y = call.output(0, DataType::kInt32, IntegerMatMul::result_shape(a, b));
    product_.run(call, {a, 0, a_zero, 2}, {b, 1, b_zero, 3}, y.mutable_data<int32_t>());
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point.
class QLinearMatMulKernel : public Kernel {
 public:
  explicit QLinearMatMulKernel(const KernelContext& context) : product_(context, 3) {}

  void run(KernelCall& call) const override {
    const Tensor &a = call.input(0), &b = call.input(3), &y_zero_tensor = call.input(7);
    const Shape shape = IntegerMatMul::result_shape(a, b);
    Tensor sums = Tensor::allocate(DataType::kInt32, shape, call.pool());
    product_.run(call, {a, 0, &call.input(2), 2}, {b, 3, &call.input(5), 5}, sums.mutable_data<int32_t>());
    const FloatView<float> a_scale(call.input(1), call.pool()), b_scale(call.input(4), call.pool()),
        y_scale(call.input(6), call.pool());
    const int64_t n = shape.rank() ? shape.back() : 1, rows = n ? shape.count() / n : 0;
    const int64_t a_scales = call.input(1).count(), b_scales = call.input(4).count(), y_scales = call.input(6).count();
    const auto y_zero = y_zero_tensor.to_int64();
    const DataType type = y_zero_tensor.type();
    if (!is_int8(type)) fail_input(7, "int8 or uint8", name(type));
    Tensor& y = call.output(0, type, shape);
    const int64_t low = type == DataType::kInt8 ? -128 : 0;
    const int32_t* sum = sums.data<int32_t>();
    auto* out = reinterpret_cast<uint8_t*>(y.mutable_raw());
    parallel_items(rows, 4 * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < n; ++c) {
          const float scale = a_scale[a_scales == 1 ? 0 : r % a_scales] * b_scale[b_scales == 1 ? 0 : c % b_scales] /
                              y_scale[y_scales == 1 ? 0 : r % y_scales];
          const auto zero = static_cast<float>(y_zero[y_zero.size() == 1 ? 0 : static_cast<size_t>(r) % y_zero.size()]);
          const float v = std::nearbyint(static_cast<float>(sum[r * n + c]) * scale) + zero;
          out[r * n + c] = static_cast<uint8_t>(
              static_cast<int64_t>(std::clamp(v, static_cast<float>(low), static_cast<float>(low + 255))));
        }
    });
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

// y = float(sums) a_scale b_scale + bias.
void scale_sums(const int32_t* sums, const Shape& shape, float a_scale, const FloatView<float>& b_scale,
                int64_t b_scales, const FloatView<float>& bias, float* y) {
  const int64_t n = shape.rank() ? shape.back() : 1, rows = n ? shape.count() / n : 0;
  parallel_items(rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < n; ++c)
        y[r * n + c] =
            static_cast<float>(sums[r * n + c]) * (a_scale * b_scale[b_scales == 1 ? 0 : c]) + (bias ? bias[c] : 0.0F);
  });
}

// A (float), B, b_scale, b_zero_point, bias.
class DynamicQuantizeMatMulKernel : public Kernel {
 public:
  explicit DynamicQuantizeMatMulKernel(const KernelContext& context) : product_(context, 1) {}
  void run(KernelCall& call) const override {
    const Tensor &a = call.input(0), &b = call.input(1);
    expect_type(a, 0, DataType::kFloat);
    Tensor quantized = Tensor::allocate(DataType::kUInt8, a.shape(), call.pool());
    const DynamicQuantization q = dynamic_quantize(a.data<float>(), a.count(), quantized.mutable_data<uint8_t>());
    const Tensor zero = Tensor::scalar<uint8_t>(q.zero_point);
    const Shape shape = IntegerMatMul::result_shape(a, b);
    Tensor sums = Tensor::allocate(DataType::kInt32, shape, call.pool());
    product_.run(call, {quantized, 0, &zero, 0}, {b, 1, call.optional_input(3), 3}, sums.mutable_data<int32_t>());
    Tensor& y = call.output(0, DataType::kFloat, shape);
    scale_sums(sums.data<int32_t>(), shape, q.scale, {call.input(2), call.pool()}, call.input(2).count(),
               {call.optional_input(4), call.pool()}, y.mutable_data<float>());
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

// A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias.
class MatMulIntegerToFloatKernel : public Kernel {
 public:
  explicit MatMulIntegerToFloatKernel(const KernelContext& context) : product_(context, 1) {}
  void run(KernelCall& call) const override {
    const Tensor &a = call.input(0), &b = call.input(1), &a_scale = call.input(2);
    if (a_scale.count() != 1) fail_input(2, "a scalar", a_scale.shape().to_string());
    const Shape shape = IntegerMatMul::result_shape(a, b);
    Tensor sums = Tensor::allocate(DataType::kInt32, shape, call.pool());
    product_.run(call, {a, 0, call.optional_input(4), 4}, {b, 1, call.optional_input(5), 5},
                 sums.mutable_data<int32_t>());
    FloatResult<float> y(call, 0, a_scale.type(), shape);
    scale_sums(sums.data<int32_t>(), shape, FloatView<float>(a_scale, call.pool())[0], {call.input(3), call.pool()},
               call.input(3).count(), {call.optional_input(6), call.pool()}, y.data());
    y.store(call);
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

template <class K>
std::unique_ptr<Kernel> make(const KernelContext& context) {
  return std::make_unique<K>(context);
}

}  // namespace

std::vector<OpDef> ops_in_quantized_matmul();
std::vector<OpDef> ops_in_quantized_matmul() {
  return {{"", "MatMulInteger", 10, make<MatMulIntegerKernel>},
          {"", "QLinearMatMul", 10, make<QLinearMatMulKernel>},
          {"com.microsoft", "DynamicQuantizeMatMul", 1, make<DynamicQuantizeMatMulKernel>},
          {"com.microsoft", "MatMulIntegerToFloat", 1, make<MatMulIntegerToFloatKernel>}};
}

}  // namespace attune
