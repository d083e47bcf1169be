// MatMulInteger, QLinearMatMul, and ONNX Runtime's DynamicQuantizeMatMul and MatMulIntegerToFloat.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/counts.h"
#include "ops/support/dynamic_quantize.h"
#include "ops/support/float_tensor.h"
#include "ops/support/int8_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/product.h"
#include "ops/support/quantized.h"

namespace attune {
namespace {

// The sizes of a product as MatMul has them: operands of rank 1 count as a row or a column, batch axes broadcast.
struct Sizes {
  Sizes(const Tensor& a, const Tensor& b) : x(a.shape()), w(b.shape()) {
    if (a.rank() == 0 || b.rank() == 0) fail_sizes(a, b);
    if (a.rank() == 1) x.insert(0, 1);
    if (b.rank() == 1) w.push_back(1);
    m = x[x.rank() - 2];
    k = x.back();
    n = w.back();
    if (w[w.rank() - 2] != k) fail_sizes(a, b);
    batch = broadcast_batch(x, w);
    result = batch;
    if (a.rank() > 1) result.push_back(m);
    if (b.rank() > 1) result.push_back(n);
  }
  int64_t x_rows() const { return x.count(0, x.rank() - 1); }     // of the left operand
  int64_t w_batches() const { return w.count(0, w.rank() - 2); }  // of the right one
  int64_t rows() const { return batch.count() * m; }              // of the result

  Shape x, w;  // the operands', with the axes added
  Shape batch, result;
  int64_t m, k, n;

 private:
  [[noreturn]] static void fail_sizes(const Tensor& a, const Tensor& b) {
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} can't be multiplied by {}", a.shape().to_string(), b.shape().to_string()));
  }
};

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

  void run(KernelCall& call, const Sizes& s, const Operand& a, const Operand& b, int32_t* y) const {
    check(a);
    check(b);
    const Tensor xt = a.values.to_contiguous(call.pool()), wt = b.values.to_contiguous(call.pool());
    const std::vector<int32_t> x_zero = zero_points(a.zero), w_zero = zero_points(b.zero);
    // One for each row of a matrix, or of all; one for each column likewise.
    if (a.zero && a.zero->count() != s.x_rows()) expect_one_or(*a.zero, a.zero_input, s.m);
    if (b.zero && b.zero->count() != s.w_batches() * s.n) expect_one_or(*b.zero, b.zero_input, s.n);
    if (s.w_batches() != 1) return run_batch(call, xt, wt, s, x_zero, w_zero, y);
    const Int8Weights made = weights_ ? Int8Weights{} : Int8Weights::pack(wt.raw(), wt.type(), s.k, s.n);
    product_.run(xt.raw(), xt.type(), s.x_rows(), repeated(x_zero, s.x_rows()), weights_ ? *weights_ : made, w_zero, y,
                 call.pool());
  }

  std::string implementation() const { return product_.implementation(); }

 private:
  static void check(const Operand& o) {
    expect_int8(o.values, o.input);
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
    if (zero.size() == 1 || zero.size() == w) return zero;
    const auto from = zero.begin() + static_cast<std::ptrdiff_t>(batch * width);
    return {from, from + static_cast<std::ptrdiff_t>(w)};
  }

  void run_batch(KernelCall& call, const Tensor& xt, const Tensor& wt, const Sizes& s,
                 const std::vector<int32_t>& x_zero, const std::vector<int32_t>& w_zero, int32_t* y) const {
    const Shape& batch = s.batch;
    const auto index = [&](const Shape& operand, int64_t flat) {
      int64_t offset = 0, step = 1;
      for (size_t i = 0; i < batch.rank(); ++i) {
        const size_t axis = batch.rank() - 1 - i;
        const int64_t at = flat % batch[axis];
        flat /= batch[axis];
        if (i + 2 >= operand.rank()) continue;
        const int64_t size = operand[operand.rank() - 3 - i];
        if (size != 1) offset += at * step;
        step *= size;
      }
      return offset;
    };
    for (int64_t i = 0; i < batch.count(); ++i) {
      const int64_t ia = index(s.x, i), ib = index(s.w, i);
      const Int8Weights packed = Int8Weights::pack(wt.raw() + ib * s.k * s.n, wt.type(), s.k, s.n);
      product_.run(xt.raw() + ia * s.m * s.k, xt.type(), s.m, part(x_zero, ia, s.m), packed, part(w_zero, ib, s.n),
                   y + i * s.m * s.n, call.pool());
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
    const Sizes sizes(a, b);
    Tensor& y = call.output(0, DataType::kInt32, sizes.result);
    product_.run(call, sizes, {a, 0, a_zero, 2}, {b, 1, b_zero, 3}, y.mutable_data<int32_t>());
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

// A scale or zero point for all rows of the result, for each row of a matrix, or for each of `all` rows (which are then
// those of the result).
class RowValues {
 public:
  RowValues(KernelCall& call, size_t input, const Sizes& s, int64_t all) : values_(call.input(input).to_double()) {
    const int64_t count = call.input(input).count();
    if (count != all || all != s.rows()) expect_one_or(call.input(input), input, s.m);
  }
  float of(int64_t row) const {
    return static_cast<float>(values_[values_.size() == 1 ? 0 : static_cast<size_t>(row) % values_.size()]);
  }

 private:
  std::vector<double> values_;
};

// A scale for all columns of the right operand, for each column of a matrix, or for each of all matrices (which are
// then as many as the result's).
class ColumnValues {
 public:
  ColumnValues(KernelCall& call, size_t input, const Sizes& s) : values_(call.input(input), call.pool()), m_(s.m) {
    const int64_t count = call.input(input).count(), batches = s.batch.count();
    const bool all = count == batches * s.n && s.w_batches() == batches;
    if (!all) expect_one_or(call.input(input), input, s.n);
    batch_step_ = all ? s.n : 0;
    column_step_ = all || count == s.n ? 1 : 0;
  }
  float of(int64_t row, int64_t column) const { return values_[row / m_ * batch_step_ + column * column_step_]; }

 private:
  FloatView<float> values_;
  int64_t m_, batch_step_, column_step_;
};

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point.
class QLinearMatMulKernel : public Kernel {
 public:
  explicit QLinearMatMulKernel(const KernelContext& context) : product_(context, 3) {}

  void run(KernelCall& call) const override {
    const Tensor &a = call.input(0), &b = call.input(3), &y_zero_tensor = call.input(7);
    const Sizes s(a, b);
    const RowValues a_scale(call, 1, s, s.x_rows()), y_scale(call, 6, s, s.rows()), y_zero(call, 7, s, s.rows());
    const ColumnValues b_scale(call, 4, s);
    expect_int8(y_zero_tensor, 7);
    const DataType type = y_zero_tensor.type();
    Tensor sums = Tensor::allocate(DataType::kInt32, s.result, call.pool());
    product_.run(call, s, {a, 0, &call.input(2), 2}, {b, 3, &call.input(5), 5}, sums.mutable_data<int32_t>());
    Tensor& y = call.output(0, type, s.result);
    const int64_t n = s.n;
    const auto low = type == DataType::kInt8 ? -128.0F : 0.0F;
    const int32_t* sum = sums.data<int32_t>();
    auto* out = reinterpret_cast<uint8_t*>(y.mutable_raw());
    parallel_items(s.rows(), 4 * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < n; ++c) {
          const float scale = a_scale.of(r) * b_scale.of(r, c) / y_scale.of(r);
          const float v = std::nearbyint(static_cast<float>(sum[r * n + c]) * scale) + y_zero.of(r);
          out[r * n + c] = to_code(v, low);
        }
    });
  }
  std::string implementation() const override { return product_.implementation(); }

 private:
  IntegerMatMul product_;
};

// Where the inputs of the last step are.
struct LastStep {
  size_t b_scale, bias;
};

// y = float(sums) a_scale b_scale + bias, with one scale or one for each column, and a bias for each column.
void scale_sums(KernelCall& call, const Sizes& s, const int32_t* sums, float a_scale, const LastStep& at, float* y) {
  const Tensor* bias_tensor = call.optional_input(at.bias);
  if (bias_tensor) expect_count(*bias_tensor, at.bias, s.n);
  expect_one_or(call.input(at.b_scale), at.b_scale, s.n);
  const bool one = call.input(at.b_scale).count() == 1;
  const FloatView<float> b_scale(call.input(at.b_scale), call.pool()), bias(bias_tensor, call.pool());
  const int64_t n = s.n;
  parallel_items(s.rows(), n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < n; ++c)
        y[r * n + c] = static_cast<float>(sums[r * n + c]) * (a_scale * b_scale[one ? 0 : c]) + (bias ? bias[c] : 0.0F);
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
    const Sizes sizes(a, b);
    Tensor sums = Tensor::allocate(DataType::kInt32, sizes.result, call.pool());
    product_.run(call, sizes, {quantized, 0, &zero, 0}, {b, 1, call.optional_input(3), 3},
                 sums.mutable_data<int32_t>());
    Tensor& y = call.output(0, DataType::kFloat, sizes.result);
    scale_sums(call, sizes, sums.data<int32_t>(), q.scale, {.b_scale = 2, .bias = 4}, y.mutable_data<float>());
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
    expect_one(a_scale, 2);
    const Sizes sizes(a, b);
    Tensor sums = Tensor::allocate(DataType::kInt32, sizes.result, call.pool());
    product_.run(call, sizes, {a, 0, call.optional_input(4), 4}, {b, 1, call.optional_input(5), 5},
                 sums.mutable_data<int32_t>());
    FloatResult<float> y(call, 0, a_scale.type(), sizes.result);
    scale_sums(call, sizes, sums.data<int32_t>(), FloatView<float>(a_scale, call.pool())[0], {.b_scale = 3, .bias = 6},
               y.data());
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
