#include "ops/support/linear.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "ops/support/float_tensor.h"
#include "ops/support/panel_store.h"
#include "ops/support/parallel_items.h"

namespace attune {

bool LinearWeights::serves(const Tensor& weights) {
  const DataType t = weights.type();
  return weights.rank() == 2 && (t == DataType::kFloat || t == DataType::kFloat16 || t == DataType::kBFloat16);
}

namespace {

std::shared_ptr<const PanelWeights> panels_of(const PanelSource& source, const PackPanels& pack,
                                              const KernelOptions& options) {
  return options.panel_store ? options.panel_store->panels(source, pack) : share_panels(source, pack);
}

Tensor join(const std::vector<Tensor>& side_by_side) {
  const int64_t inner = side_by_side.front().dim(0);
  const DataType type = side_by_side.front().type();
  int64_t columns = 0;
  for (const Tensor& t : side_by_side) columns += t.dim(1);
  Tensor joint = Tensor::allocate(type, {inner, columns});
  const size_t element = storage_bytes(type, 1);
  std::byte* to = joint.mutable_raw();
  for (int64_t i = 0; i < inner; ++i)
    for (const Tensor& t : side_by_side) {
      const size_t bytes = static_cast<size_t>(t.dim(1)) * element;
      std::memcpy(to, t.raw() + static_cast<size_t>(i) * bytes, bytes);
      to += bytes;
    }
  return joint;
}

}  // namespace

LinearWeights::LinearWeights(const Tensor& weights, bool transposed, const KernelOptions& options)
    : inner_(weights.dim(transposed ? 1 : 0)), columns_(weights.dim(transposed ? 0 : 1)), transposed_(transposed) {
  if (options.pack_weights && inner_ > 0 && columns_ > 0) {
    panels_ = panels_of(
        {{weights}, transposed}, [&] { return PanelWeights::pack(weights, transposed); }, options);
  } else {
    plain_ = weights;
  }
}

LinearWeights::LinearWeights(std::vector<Tensor> side_by_side, const KernelOptions& options)
    : inner_(side_by_side.front().dim(0)), columns_(0) {
  for (const Tensor& t : side_by_side) columns_ += t.dim(1);
  if (options.pack_weights && inner_ > 0 && columns_ > 0) {
    const auto pack = [&] { return PanelWeights::pack(join(side_by_side), false); };
    panels_ = panels_of({side_by_side}, pack, options);
  } else {
    plain_ = join(side_by_side);
  }
}

namespace {

// The values of a DequantizeLinear's constant x with its zero points taken away, as int8 or int4; undefined if that
// can't be.
Tensor symmetric_values(const Tensor& x, const Tensor* zero) {
  const auto all_zero_points = [&](int64_t value) {
    if (!zero) return value == 0;
    const auto points = zero->to_int64();
    return std::all_of(points.begin(), points.end(), [&](int64_t p) { return p == value; });
  };
  if (x.type() == DataType::kInt8) return all_zero_points(0) ? x : Tensor();
  if (x.type() == DataType::kInt4) {
    const bool symmetric =
        !zero || std::all_of(zero->raw(), zero->raw() + zero->bytes(), [](std::byte b) { return b == std::byte{0}; });
    return symmetric ? x : Tensor();
  }
  if (x.type() != DataType::kUInt8 || !all_zero_points(128)) return {};
  Tensor shifted = Tensor::allocate(DataType::kInt8, x.shape());
  for (int64_t i = 0; i < x.count(); ++i)
    shifted.mutable_data<int8_t>()[i] = static_cast<int8_t>(x.data<uint8_t>()[i] ^ 0x80);
  return shifted;
}

// The scales of a DequantizeLinear of (K, N) weights, or (N, K), as (K / group, N), and the group (0: all rows);
// undefined if they don't have that form.
std::pair<Tensor, int64_t> column_scales(const Node& dequantize, const Tensor& x, const Tensor& scale,
                                         bool transposed) {
  const size_t inner_axis = transposed ? 1 : 0;
  const int64_t columns = x.dim(1 - inner_axis), block = dequantize.attr_int("block_size", 0);
  const size_t axis = normalize_axis(dequantize.attr_int("axis", 1), 2);
  const FloatView<float> from(scale, nullptr);
  if (block == 0 && (scale.count() == 1 || axis != inner_axis)) {
    if (scale.count() != 1 && scale.count() != columns) return {};
    Tensor to = Tensor::allocate(DataType::kFloat, {1, columns});
    for (int64_t n = 0; n < columns; ++n) to.mutable_data<float>()[n] = from[scale.count() == 1 ? 0 : n];
    return {to, 0};
  }
  if (block == 0 || axis != inner_axis) return {};
  const int64_t groups = (x.dim(inner_axis) + block - 1) / block;
  if (scale.count() != groups * columns) return {};
  Tensor to = Tensor::allocate(DataType::kFloat, {groups, columns});
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < columns; ++n)
      to.mutable_data<float>()[g * columns + n] = from[transposed ? n * groups + g : g * columns + n];
  return {to, block};
}

}  // namespace

std::unique_ptr<LinearWeights> LinearWeights::of_input(const KernelContext& context, size_t i, bool transposed) {
  if (const Tensor* w = context.constant(i))
    return serves(*w) ? std::make_unique<LinearWeights>(*w, transposed, context.options()) : nullptr;
  const Value* value = context.node().input(i);
  const Node* producer = value ? value->producer() : nullptr;
  if (!producer || !producer->is("DequantizeLinear") || !context.options().pack_weights) return nullptr;
  const auto constant = [&](size_t input) {
    return producer->input(input) ? producer->input(input)->constant() : nullptr;
  };
  const Tensor *x = constant(0), *scale = constant(1), *zero = constant(2);
  if (!x || !scale || (producer->input(2) && !zero) || x->rank() != 2 || x->count() == 0 ||
      producer->has("output_dtype"))
    return nullptr;
  if (scale->type() != DataType::kFloat) return nullptr;
  const Tensor values = symmetric_values(*x, zero);
  if (!values.defined()) return nullptr;
  const auto [scales, group] = column_scales(*producer, *x, *scale, transposed);
  if (!scales.defined()) return nullptr;
  const auto pack = [&, &scales = scales, group = group] {
    return PanelWeights::pack_quantized(values, transposed, scales, group);
  };
  return std::unique_ptr<LinearWeights>(
      new LinearWeights(panels_of({{values, scales}, transposed, group}, pack, context.options())));
}

LinearWeights::LinearWeights(std::shared_ptr<const PanelWeights> panels)
    : inner_(panels->inner()), columns_(panels->columns()), panels_(std::move(panels)) {}

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
