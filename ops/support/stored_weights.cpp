#include "ops/support/stored_weights.h"

#include <algorithm>

#include "ops/support/attention_inputs.h"
#include "ops/support/float_tensor.h"
#include "ops/support/small_types.h"

namespace attune {
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

std::optional<StoredMatrix> of_dequantize(const Node& node) {
  const auto constant = [&](size_t i) { return node.input(i) ? node.input(i)->constant() : nullptr; };
  const Tensor *x = constant(0), *scale = constant(1), *zero = constant(2);
  if (!x || !scale || (node.input(2) && !zero) || x->rank() != 2 || x->count() == 0 || node.has("output_dtype") ||
      scale->type() != DataType::kFloat)
    return std::nullopt;
  StoredMatrix m;
  m.values = symmetric_values(*x, zero);
  if (!m.values.defined()) return std::nullopt;
  const int64_t rows = x->dim(0), columns = x->dim(1), block = node.attr_int("block_size", 0);
  const size_t axis = normalize_axis(node.attr_int("axis", 1), 2);
  const bool along_rows = axis == 0;
  if (block == 0) {
    const bool single = scale->count() == 1;
    m.row_block = single || !along_rows ? rows : 1;
    m.column_block = single || along_rows ? columns : 1;
  } else {
    m.row_block = along_rows ? block : 1;
    m.column_block = along_rows ? 1 : block;
  }
  const Shape shape{(rows + m.row_block - 1) / m.row_block, (columns + m.column_block - 1) / m.column_block};
  if (scale->count() != shape.count()) return std::nullopt;
  m.scales = scale->reshaped(shape);
  return m;
}

}  // namespace

bool widens_stored_matrix(const Node& node) {
  if (node.is("DequantizeLinear")) return true;
  const Tensor* x = node.is("Cast") && node.input(0) ? node.input(0)->constant() : nullptr;
  return x && x->rank() == 2 && is_half(x->type()) && node.attr_int("to", 0) == static_cast<int64_t>(DataType::kFloat);
}

void read_row(const StoredMatrix& m, int64_t row, float* to) {
  const int64_t columns = m.values.dim(1);
  if (!m.scales.defined()) {
    widen(m.values.type(), m.values.raw() + static_cast<size_t>(row * columns) * 2, to, columns);
    return;
  }
  const float* scales = m.scales.data<float>() + row / m.row_block * m.scales.dim(1);
  const auto* bytes = reinterpret_cast<const uint8_t*>(m.values.raw());
  const auto scaled = [&](auto&& value) {
    for (int64_t begin = 0; begin < columns; begin += m.column_block) {
      const float scale = scales[begin / m.column_block];
      const int64_t end = std::min(columns, begin + m.column_block);
      for (int64_t c = begin; c < end; ++c) to[c] = static_cast<float>(value(row * columns + c)) * scale;
    }
  };
  if (m.values.type() == DataType::kInt8) {
    scaled([&](int64_t i) { return static_cast<int8_t>(bytes[i]); });
  } else {
    scaled([&](int64_t i) { return sign_extend(packed_element(bytes, i, 4), 4); });
  }
}

bool takes_stored_matrix(const Node& node, size_t i) {
  if (node.is("FeedForward", "ai.attune.runtime")) return i == 1 || i == 3;
  if (node.is("Attention", "ai.attune")) return i >= kAttentionQueryWeight && i <= kAttentionValueWeight;
  if (node.is("Gather")) return i == 0 && node.attr_int("axis", 0) == 0;
  if (node.is("PositionEmbedding", "ai.attune")) return i == 1;
  const bool product = node.is("Linear", "ai.attune") || node.is("MatMul") || node.is("FusedMatMul", "com.microsoft") ||
                       node.is("LinearTop", "ai.attune.runtime") ||
                       (node.is("Gemm") && node.attr_int("transA", 0) == 0);
  return product && i == 1;
}

std::optional<StoredMatrix> stored_matrix(const KernelContext& context, size_t i) {
  return stored_matrix(context.node().input(i));
}

std::optional<StoredMatrix> stored_matrix(const Value* value) {
  const Node* producer = value ? value->producer() : nullptr;
  if (!producer || !widens_stored_matrix(*producer)) return std::nullopt;
  if (producer->is("DequantizeLinear")) return of_dequantize(*producer);
  StoredMatrix m;
  m.values = *producer->input(0)->constant();
  return m;
}

}  // namespace attune
