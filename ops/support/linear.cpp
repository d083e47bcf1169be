#include "ops/support/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/support/float_tensor.h"
#include "ops/support/panel_store.h"
#include "ops/support/parallel_items.h"
#include "ops/support/stored_weights.h"

namespace attune {

bool LinearWeights::serves(const Tensor& weights) {
  const DataType t = weights.type();
  return weights.rank() == 2 && (t == DataType::kFloat || is_half(t));
}

namespace {

PanelWeights pack(const ConstantWeights& w, bool rounds) {
  if (w.scales.defined()) return PanelWeights::pack_quantized(w.values, w.transposed, w.scales, w.group, rounds);
  return rounds ? PanelWeights::pack_int16(w.values, w.transposed) : PanelWeights::pack(w.values, w.transposed);
}

PanelWeights pack(const std::vector<ConstantWeights>& side_by_side, bool rounds) {
  std::vector<PanelWeights> parts;
  for (const ConstantWeights& w : side_by_side) parts.push_back(pack(w, rounds));
  if (parts.size() == 1) return std::move(parts.front());
  std::vector<const PanelWeights*> pointers;
  for (const PanelWeights& p : parts) pointers.push_back(&p);
  return PanelWeights::side_by_side(pointers);
}

// The scales of a stored matrix as (K / group, N), and the group.
void set_scales(const StoredMatrix& m, ConstantWeights& w) {
  const int64_t inner_block = w.transposed ? m.column_block : m.row_block;
  const int64_t column_block = w.transposed ? m.row_block : m.column_block;
  const int64_t groups = (w.inner() + inner_block - 1) / inner_block, columns = w.columns();
  const Shape steps = w.transposed ? Shape{1, m.scales.dim(1)} : Shape{m.scales.dim(1), 1};
  w.scales = Tensor::allocate(DataType::kFloat, {groups, columns});
  w.group = groups > 1 ? inner_block : 0;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < columns; ++n)
      w.scales.mutable_data<float>()[g * columns + n] =
          m.scales.data<float>()[g * steps[0] + n / column_block * steps[1]];
}

}  // namespace

std::optional<ConstantWeights> constant_weights(const KernelContext& context, size_t i, bool transposed) {
  ConstantWeights w;
  w.transposed = transposed;
  if (const Tensor* t = context.constant(i)) {
    if (!LinearWeights::serves(*t)) return std::nullopt;
    w.values = *t;
    w.type = t->type();
    return w;
  }
  if (!context.options().pack_weights) return std::nullopt;
  const auto stored = stored_matrix(context, i);
  if (!stored) return std::nullopt;
  w.values = stored->values;
  if (stored->scales.defined()) set_scales(*stored, w);
  return w;
}

bool fit_together(std::span<const ConstantWeights> weights) {
  const ConstantWeights& first = weights.front();
  return std::all_of(weights.begin(), weights.end(), [&](const ConstantWeights& w) {
    const bool fills_panels = w.columns() % PanelWeights::kPanel == 0 || &w == &weights.back();
    return fills_panels && w.values.type() == first.values.type() && w.inner() == first.inner() &&
           w.group == first.group && w.transposed == first.transposed;
  });
}

LinearWeights::LinearWeights(const Tensor& weights, bool transposed, const KernelOptions& options)
    : LinearWeights({{weights, {}, 0, transposed, weights.type()}}, options) {}

LinearWeights::LinearWeights(const std::vector<ConstantWeights>& side_by_side, const KernelOptions& options)
    : inner_(side_by_side.front().inner()), columns_(0), transposed_(side_by_side.front().transposed) {
  for (const ConstantWeights& w : side_by_side) columns_ += w.columns();
  const bool packs = options.pack_weights && inner_ > 0 && columns_ > 0;
  if (!packs && side_by_side.size() == 1) {
    plain_ = side_by_side.front().values;
    return;
  }
  const ConstantWeights& first = side_by_side.front();
  using Activations = KernelOptions::Activations;
  const bool rounds = first.scales.defined()
                          ? options.activations == Activations::kInt8
                          : options.activations != Activations::kFloat && is_half(first.values.type());
  PanelSource source{{}, transposed_, first.group, rounds};
  for (const ConstantWeights& w : side_by_side) {
    source.tensors.push_back(w.values);
    if (w.scales.defined()) source.tensors.push_back(w.scales);
  }
  const auto pack_all = [&] { return pack(side_by_side, rounds); };
  panels_ = options.panel_store ? options.panel_store->panels(source, pack_all) : share_panels(source, pack_all);
}

std::unique_ptr<LinearWeights> LinearWeights::of_input(const KernelContext& context, size_t i, bool transposed) {
  const auto w = constant_weights(context, i, transposed);
  return w ? std::make_unique<LinearWeights>(std::vector{*w}, context.options()) : nullptr;
}

void LinearWeights::run(const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool) const {
  if (rows == 0 || columns_ == 0) return;
  if (panels_) return panels_->multiply(x, inner_, rows, y, columns_, epilogue, pool);
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
  const FloatView<float> weights(plain_, pool);
  const MatrixView w{weights.data(), plain_.shape(), {plain_.dim(1), 1}};
  product_.run({x, {rows, inner_}, {inner_, 1}}, transposed_ ? w.transposed() : w, y, pool);
  apply_epilogue(y, rows, columns_, after);
}

std::string LinearWeights::implementation() const {
  return panels_ ? fmt::format("panels:{}", PanelWeights::instruction_set()) : product_.implementation();
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
