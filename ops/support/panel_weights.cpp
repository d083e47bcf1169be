#include "ops/support/panel_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr int64_t kPanel = PanelWeights::kPanel;

// Element (k, n) of the source is at k * row + n * column.
struct Layout {
  int64_t inner, columns, row, column;
};

Layout layout_of(const Tensor& weights, bool transposed) {
  if (weights.rank() != 2)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("weights of shape {}, expected rank 2", weights.shape().to_string()));
  if (transposed) return {weights.dim(1), weights.dim(0), 1, weights.dim(1)};
  return {weights.dim(0), weights.dim(1), weights.dim(1), 1};
}

template <class T>
void pack_panels(const T* from, const Layout& l, T* to) {
  const int64_t panels = (l.columns + kPanel - 1) / kPanel;
#pragma omp parallel for schedule(static) if (l.inner * l.columns > 65536)
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t width = std::min(kPanel, l.columns - p * kPanel);
    T* out = to + p * l.inner * kPanel;
    for (int64_t k = 0; k < l.inner; ++k, out += kPanel) {
      const T* in = from + k * l.row + p * kPanel * l.column;
      for (int64_t n = 0; n < width; ++n) out[n] = in[n * l.column];
      std::fill(out + width, out + kPanel, T{});
    }
  }
}

int8_t nibble(const uint8_t* bytes, int64_t index) {
  const uint8_t byte = bytes[index / 2];
  const int value = index % 2 == 0 ? byte & 15 : byte >> 4;
  return static_cast<int8_t>(value >= 8 ? value - 16 : value);
}

// A panel's row of 16 int4 values is 8 bytes: byte j holds column j (low) and column j + 8 (high), offset by 8.
void pack_int4(const uint8_t* from, const Layout& l, uint8_t* to) {
  const int64_t panels = (l.columns + kPanel - 1) / kPanel;
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t k = 0; k < l.inner; ++k)
      for (int64_t j = 0; j < kPanel / 2; ++j) {
        const auto value = [&](int64_t n) { return n < l.columns ? nibble(from, k * l.row + n * l.column) + 8 : 8; };
        const int low = value(p * kPanel + j), high = value(p * kPanel + j + 8);
        to[(p * l.inner + k) * (kPanel / 2) + j] = static_cast<uint8_t>(low | (high << 4));
      }
}

}  // namespace

PanelWeights PanelWeights::pack(const Tensor& weights, bool transposed) {
  const Layout l = layout_of(weights, transposed);
  PanelWeights w;
  w.inner_ = l.inner;
  w.columns_ = l.columns;
  switch (weights.type()) {
    case DataType::kFloat:
      w.storage_ = Storage::kFloat32;
      break;
    case DataType::kFloat16:
      w.storage_ = Storage::kFloat16;
      break;
    case DataType::kBFloat16:
      w.storage_ = Storage::kBFloat16;
      break;
    default:
      throw Error(Error::Kind::kUnsupported, fmt::format("weights of type {}", name(weights.type())));
  }
  const size_t element = w.storage_ == Storage::kFloat32 ? 4 : 2;
  w.panel_bytes_ = static_cast<size_t>(l.inner * kPanel) * element;
  w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
  if (element == 4) {
    pack_panels(reinterpret_cast<const uint32_t*>(weights.raw()), l, reinterpret_cast<uint32_t*>(w.memory_->data()));
  } else {
    pack_panels(reinterpret_cast<const uint16_t*>(weights.raw()), l, reinterpret_cast<uint16_t*>(w.memory_->data()));
  }
  return w;
}

PanelWeights PanelWeights::pack_quantized(const Tensor& weights, bool transposed, const Tensor& scales, int64_t group) {
  const Layout l = layout_of(weights, transposed);
  PanelWeights w;
  w.inner_ = l.inner;
  w.columns_ = l.columns;
  w.group_rows_ = group > 0 ? group : std::max<int64_t>(l.inner, 1);
  w.groups_ = (l.inner + w.group_rows_ - 1) / w.group_rows_;
  if (scales.count() != w.groups_ * l.columns)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("scales of shape {} for weights (K,N) = ({},{}) in groups of {}",
                            scales.shape().to_string(), l.inner, l.columns, w.group_rows_));
  if (weights.type() == DataType::kInt8) {
    w.storage_ = Storage::kInt8;
    w.panel_bytes_ = static_cast<size_t>(l.inner * kPanel);
    w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
    pack_panels(weights.data<int8_t>(), l, reinterpret_cast<int8_t*>(w.memory_->data()));
  } else if (weights.type() == DataType::kInt4) {
    w.storage_ = Storage::kInt4;
    w.panel_bytes_ = static_cast<size_t>(l.inner * kPanel / 2);
    w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
    pack_int4(reinterpret_cast<const uint8_t*>(weights.raw()), l, reinterpret_cast<uint8_t*>(w.memory_->data()));
  } else {
    throw Error(Error::Kind::kUnsupported, fmt::format("quantised weights of type {}", name(weights.type())));
  }
  w.scales_ = Tensor::allocate(DataType::kFloat, {w.panels(), w.groups_, kPanel});
  float* out = w.scales_.mutable_data<float>();
  const std::vector<double> s = scales.to_double();
  for (int64_t p = 0; p < w.panels(); ++p)
    for (int64_t g = 0; g < w.groups_; ++g)
      for (int64_t n = 0; n < kPanel; ++n) {
        const int64_t column = p * kPanel + n;
        *out++ = column < l.columns ? static_cast<float>(s[static_cast<size_t>(g * l.columns + column)]) : 0.0F;
      }
  return w;
}

size_t PanelWeights::bytes() const {
  return panel_bytes_ * static_cast<size_t>(panels()) + (scales_.defined() ? scales_.bytes() : 0);
}

}  // namespace attune
