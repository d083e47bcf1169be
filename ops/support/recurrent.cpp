#include "ops/support/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/support/dynamic_quantize.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"

namespace attune {

Projection::Projection(const Tensor& weights, const KernelOptions& options) {
  if (LinearWeights::serves(weights)) {
    linear_ = std::make_unique<LinearWeights>(weights, /*transposed=*/true, options);
  } else {
    if (weights.type() != DataType::kDouble) fail_type(weights.type());
    weights_ = weights;
  }
}

Projection::Projection(const QuantizedDirections& weights, int64_t direction) {
  const Tensor &w = weights.values, &scales = weights.scales;
  const int64_t directions = w.dim(0), inner = w.dim(1), columns = w.dim(2);
  const auto check = [&](const Tensor& t, const char* what) {
    if (t.count() != directions && t.count() != directions * columns)
      throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: expected {} or {} values, got shape {}", what,
                                                             directions, directions * columns, t.shape().to_string()));
  };
  check(scales, "scales");
  if (weights.zero_points) check(*weights.zero_points, "zero points");
  const auto of_direction = [&](const auto& all) {
    const auto each = static_cast<std::ptrdiff_t>(all.size()) / directions;
    return std::vector(all.begin() + direction * each, all.begin() + (direction + 1) * each);
  };
  const FloatView<float> scale(scales, nullptr);
  const auto skipped = static_cast<size_t>(direction * inner * columns);
  quantized_ = std::make_unique<Quantized>();
  quantized_->values = Int8Weights::pack(w.raw() + skipped, w.type(), inner, columns);
  quantized_->scales = of_direction(std::vector<float>(scale.data(), scale.data() + scales.count()));
  quantized_->zeros = {0};
  if (weights.zero_points) {
    const auto zeros = of_direction(weights.zero_points->to_int64());
    quantized_->zeros.assign(zeros.begin(), zeros.end());
  }
}

int64_t Projection::inner() const {
  return linear_ ? linear_->inner() : quantized_ ? quantized_->values.inner : weights_.dim(1);
}

void Projection::run_quantized(const float* x, int64_t rows, float* y, const float* bias, BufferPool* pool) const {
  const Quantized& w = *quantized_;
  const int64_t n = w.values.columns, count = rows * w.values.inner;
  Tensor codes = Tensor::allocate(DataType::kUInt8, {count}, pool);
  Tensor sums = Tensor::allocate(DataType::kInt32, {rows, n}, pool);
  const DynamicQuantization q = dynamic_quantize(x, count, codes.mutable_data<uint8_t>());
  w.product.run(codes.raw(), codes.type(), rows, {q.zero_point}, w.values, w.zeros, sums.mutable_data<int32_t>(), pool);
  const int32_t* sum = sums.data<int32_t>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < n; ++c)
      y[r * n + c] =
          static_cast<float>(sum[r * n + c]) * (q.scale * w.scales[w.scales.size() == 1 ? 0 : static_cast<size_t>(c)]) +
          (bias ? bias[c] : 0.0F);
}

void Projection::run(const float* x, int64_t rows, float* y, const float* bias, BufferPool* pool) const {
  if (quantized_) return run_quantized(x, rows, y, bias, pool);
  if (!linear_) fail_type(weights_.type());
  linear_->run(x, rows, y, {bias, Activation::kNone, nullptr, 0}, pool);
}

void Projection::run(const double* x, int64_t rows, double* y, const double* bias, BufferPool*) const {
  if (linear_ || quantized_) fail_type(DataType::kDouble);
  const int64_t n = weights_.dim(0), k = weights_.dim(1);
  parallel_items(rows, n * k, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < n; ++c) {
        const double* w = weights_.data<double>() + c * k;
        double sum = bias ? bias[c] : 0;
        for (int64_t i = 0; i < k; ++i) sum += x[r * k + i] * w[i];
        y[r * n + c] = sum;
      }
  });
}

Tensor matrix_slice(const Tensor& t, int64_t first, int64_t begin, int64_t end) {
  const int64_t rows = t.dim(1), columns = t.dim(2);
  const auto skipped = static_cast<size_t>((first * rows + begin) * columns);
  const auto offset = static_cast<size_t>(t.raw() - t.buffer()->data()) + storage_bytes(t.type(), skipped);
  return Tensor::from_buffer(t.type(), {end - begin, columns}, t.buffer(), offset);
}

}  // namespace attune
