#include "ops/support/linear.h"

#include <fmt/format.h>

#include <array>

#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"

namespace attune {

bool LinearWeights::serves(const Tensor& weights) {
  const DataType t = weights.type();
  return weights.rank() == 2 && (t == DataType::kFloat || t == DataType::kFloat16 || t == DataType::kBFloat16);
}

LinearWeights::LinearWeights(const Tensor& weights, bool transposed, const KernelOptions& options)
    : inner_(weights.dim(transposed ? 1 : 0)), columns_(weights.dim(transposed ? 0 : 1)), transposed_(transposed) {
  if (options.pack_weights && inner_ > 0 && columns_ > 0) {
    panels_ = PanelWeights::pack(weights, transposed);
  } else {
    plain_ = weights;
  }
}

void LinearWeights::run(const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool) const {
  if (rows == 0 || columns_ == 0) return;
  // The product overwrites y, which may be the residual.
  BufferRef kept;
  Epilogue after = epilogue;
  if (epilogue.residual == y) {
    const auto bytes = static_cast<size_t>(rows * columns_) * sizeof(float);
    kept = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
    auto* copy = reinterpret_cast<float*>(kept->data());
    std::copy(y, y + rows * columns_, copy);
    after.residual = copy;
  }
  if (panels_.defined()) return panels_.multiply(x, inner_, rows, y, columns_, after);
  const FloatView<float> weights(plain_, pool);
  const MatrixView w{weights.data(), plain_.shape(), {plain_.dim(1), 1}};
  product_.run({x, {rows, inner_}, {inner_, 1}}, transposed_ ? w.transposed() : w, y, pool);
  apply_epilogue(y, rows, columns_, after);
}

std::string LinearWeights::implementation() const {
  return panels_.defined() ? fmt::format("panels:{}", PanelWeights::instruction_set()) : product_.implementation();
}

void apply_epilogue(float* y, int64_t rows, int64_t columns, const Epilogue& e) {
  if (!e.bias && e.activation == Activation::kNone && !e.residual) return;
  parallel_items(rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = y + r * columns;
      if (e.bias)
        for (int64_t n = 0; n < columns; ++n) row[n] += e.bias[n];
      activate(e.activation, row, columns);
      if (e.residual) {
        const float* residual = e.residual + r * e.residual_stride;
        for (int64_t n = 0; n < columns; ++n) row[n] += residual[n];
      }
    }
  });
}

Activation activation_from_name(std::string_view name) {
  static constexpr std::array kNames{"none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"};
  for (size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<Activation>(i);
  throw Error(Error::Kind::kInvalidModel, fmt::format("unknown activation '{}'", name));
}

}  // namespace attune
