#include "ops/support/panel_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"

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
  parallel_items(panels, l.inner * kPanel, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t width = std::min(kPanel, l.columns - p * kPanel);
      T* out = to + p * l.inner * kPanel;
      for (int64_t k = 0; k < l.inner; ++k, out += kPanel) {
        const T* in = from + k * l.row + p * kPanel * l.column;
        for (int64_t n = 0; n < width; ++n) out[n] = in[n * l.column];
        std::fill(out + width, out + kPanel, T{});
      }
    }
  });
}

int8_t nibble(const uint8_t* bytes, int64_t index) {
  const uint8_t byte = bytes[index / 2];
  const int value = index % 2 == 0 ? byte & 15 : byte >> 4;
  return static_cast<int8_t>(value >= 8 ? value - 16 : value);
}

// Stores rows in steps of w.row_step(); `value(k, n)` gives a weight. Padding is weight 0.
template <class Value>
void pack_steps(const PanelWeights& w, uint8_t* to, Value&& value) {
  const int64_t step = w.row_step(), inner = w.inner(), columns = w.columns(), panels = w.panels();
  const auto pack = [&](int64_t p) {
    uint8_t* out = to + p * w.padded_inner() * kPanel * 4 / step;
    const auto at = [&](int64_t k, int64_t end, int64_t n) {
      return k < end && n < columns ? static_cast<int>(value(k, n)) : 0;
    };
    for (int64_t g = 0; g < w.groups(); ++g) {
      const int64_t end = std::min(inner, (g + 1) * w.group_rows());
      for (int64_t k = g * w.group_rows(); k < end; k += step)
        for (int64_t n = p * kPanel; n < (p + 1) * kPanel; ++n)
          for (int64_t j = k; j < k + 4; ++j)
            *out++ = static_cast<uint8_t>(step == 4 ? at(j, end, n) + 128
                                                    : (at(j, end, n) + 8) | ((at(j + 4, end, n) + 8) << 4));
    }
  };
  parallel_items(panels, inner * kPanel, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) pack(p);
  });
}

// Panel `p` of halves as floats (inner, 16); columns that don't exist are zero.
void widen_panel(const Tensor& weights, const Layout& l, int64_t p, float* to) {
  const int64_t first = p * kPanel, width = std::min(kPanel, l.columns - first);
  const auto at = [&](int64_t element) { return weights.raw() + element * 2; };
  if (width < kPanel) std::fill_n(to, l.inner * kPanel, 0.0F);
  if (l.column == 1) {
    for (int64_t k = 0; k < l.inner; ++k) widen(weights.type(), at(k * l.row + first), to + k * kPanel, width);
    return;
  }
  std::vector<float> column(static_cast<size_t>(l.inner));
  for (int64_t n = 0; n < width; ++n) {
    widen(weights.type(), at((first + n) * l.column), column.data(), l.inner);
    for (int64_t k = 0; k < l.inner; ++k) to[k * kPanel + n] = column[static_cast<size_t>(k)];
  }
}

// The least power of two that is not below `size`, a normal number; NaN if it isn't finite.
float scale_for(double size) {
  if (!std::isfinite(size)) return std::numeric_limits<float>::quiet_NaN();
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);
  return static_cast<float>(std::ldexp(1.0, std::max(fraction > 0.5 ? exponent : exponent - 1, -126)));
}

// Scales for the columns of a panel (inner, 16).
void int16_scales(const float* values, int64_t inner, float (&scales)[kPanel]) {
  double sizes[kPanel] = {}, total[kPanel] = {};
  for (int64_t begin = 0; begin < inner; begin += PanelWeights::kMostActivationBlock) {
    float most[kPanel] = {};
    double squares[kPanel] = {};
    const int64_t end = std::min(inner, begin + PanelWeights::kMostActivationBlock);
    for (const float* v = values + begin * kPanel; v < values + end * kPanel; v += kPanel)
      for (int64_t n = 0; n < kPanel; ++n) {
        most[n] = std::max(most[n], std::abs(v[n]));
        squares[n] += static_cast<double>(v[n]) * static_cast<double>(v[n]);
      }
    for (int64_t n = 0; n < kPanel; ++n) {
      sizes[n] = std::max({sizes[n], static_cast<double>(most[n] / PanelWeights::kInt16Most),
                           std::sqrt(squares[n]) / static_cast<double>(PanelWeights::kInt16Norm)});
      total[n] += squares[n];
    }
  }
  // Only the sum of squares is sure to show what isn't finite.
  for (int64_t n = 0; n < kPanel; ++n) scales[n] = scale_for(std::isfinite(total[n]) ? sizes[n] : total[n]);
}

// Rounds a panel of floats (inner, 16), which has room for a row of padding, to pairs of rows.
void round_panel(float* values, int64_t inner, float* scales, int16_t* to) {
  // Added to a number below 2^22 it leaves the nearest integer in the last bits.
  constexpr float kRound = 0x1.8p23F;
  float scale[kPanel], factor[kPanel];
  int16_scales(values, inner, scale);
  for (int64_t n = 0; n < kPanel; ++n) factor[n] = std::isfinite(scale[n]) ? 1.0F / scale[n] : 0.0F;
  std::copy_n(scale, kPanel, scales);
  if (inner % 2 != 0) std::fill_n(values + inner * kPanel, kPanel, 0.0F);
  const auto rounded = [&](float v, int64_t n) {
    return static_cast<int16_t>(std::bit_cast<int32_t>(v * factor[n] + kRound));
  };
  for (int64_t k = 0; k < inner; k += 2, values += 2 * kPanel, to += 2 * kPanel)
    for (int64_t n = 0; n < kPanel; ++n) {
      to[2 * n] = rounded(values[n], n);
      to[2 * n + 1] = rounded(values[kPanel + n], n);
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

PanelWeights PanelWeights::pack_quantized(const Tensor& weights, bool transposed, const Tensor& scales, int64_t group,
                                          bool rounded_activations) {
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
  w.rounded_activations_ = rounded_activations;
  if (weights.type() != DataType::kInt8 && weights.type() != DataType::kInt4)
    throw Error(Error::Kind::kUnsupported, fmt::format("quantised weights of type {}", name(weights.type())));
  w.storage_ = weights.type() == DataType::kInt8 ? Storage::kInt8 : Storage::kInt4;
  w.panel_bytes_ = static_cast<size_t>(w.padded_inner() * kPanel * 4 / w.row_step());
  w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
  auto* to = reinterpret_cast<uint8_t*>(w.memory_->data());
  if (w.storage_ == Storage::kInt8) {
    pack_steps(w, to,
               [&, from = weights.data<int8_t>()](int64_t k, int64_t n) { return from[k * l.row + n * l.column]; });
  } else {
    pack_steps(w, to, [&, from = reinterpret_cast<const uint8_t*>(weights.raw())](int64_t k, int64_t n) {
      return nibble(from, k * l.row + n * l.column);
    });
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

PanelWeights PanelWeights::pack_int16(const Tensor& weights, bool transposed) {
  const Layout l = layout_of(weights, transposed);
  if (!is_half(weights.type()))
    throw Error(Error::Kind::kUnsupported, fmt::format("weights of type {} as int16", name(weights.type())));
  PanelWeights w;
  w.inner_ = l.inner;
  w.columns_ = l.columns;
  w.groups_ = 1;
  w.group_rows_ = std::max<int64_t>(l.inner, 1);
  w.rounded_activations_ = true;
  w.storage_ = Storage::kInt16;
  w.panel_bytes_ = static_cast<size_t>(w.padded_inner() * kPanel) * sizeof(int16_t);
  w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
  w.scales_ = Tensor::allocate(DataType::kFloat, {w.panels(), 1, kPanel});
  parallel_items(w.panels(), l.inner * kPanel, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(w.padded_inner() * kPanel));
    for (int64_t p = begin; p < end; ++p) {
      widen_panel(weights, l, p, values.data());
      round_panel(values.data(), l.inner, w.scales_.mutable_data<float>() + p * kPanel,
                  reinterpret_cast<int16_t*>(w.memory_->data() + static_cast<size_t>(p) * w.panel_bytes_));
    }
  });
  return w;
}

PanelWeights PanelWeights::side_by_side(std::span<const PanelWeights* const> parts) {
  PanelWeights w = *parts[0];
  w.columns_ = 0;
  for (const PanelWeights* p : parts) {
    if (p->storage_ != w.storage_ || p->inner_ != w.inner_ || p->group_rows_ != w.group_rows_ ||
        p->rounded_activations_ != w.rounded_activations_ || w.columns_ % kPanel != 0)
      return {};
    w.columns_ += p->columns_;
  }
  w.memory_ = BufferRef::allocate(w.panel_bytes_ * static_cast<size_t>(w.panels()));
  if (w.scales_.defined()) w.scales_ = Tensor::allocate(DataType::kFloat, {w.panels(), w.groups_, kPanel});
  int64_t panel = 0;
  for (const PanelWeights* p : parts) {
    std::copy_n(p->memory_->data(), p->panel_bytes_ * static_cast<size_t>(p->panels()),
                w.memory_->data() + static_cast<size_t>(panel) * w.panel_bytes_);
    if (w.scales_.defined())
      std::copy_n(p->scales_.data<float>(), p->scales_.count(),
                  w.scales_.mutable_data<float>() + panel * w.groups_ * kPanel);
    panel += p->panels();
  }
  return w;
}

int64_t PanelWeights::padded_inner() const {
  if (groups_ == 0) return inner_;
  const int64_t last = inner_ - (groups_ - 1) * group_rows_;
  return (groups_ - 1) * padded_group() + (last + row_step() - 1) / row_step() * row_step();
}

PanelWeights::Header PanelWeights::header() const {
  return {inner_,
          columns_,
          group_rows_,
          groups_,
          static_cast<int64_t>(storage_),
          static_cast<int64_t>(panel_bytes_),
          rounded_activations_ ? 1 : 0};
}

std::span<const std::byte> PanelWeights::memory() const {
  return {memory_->data(), panel_bytes_ * static_cast<size_t>(panels())};
}

std::span<const std::byte> PanelWeights::scales() const {
  if (!scales_.defined()) return {};
  return {scales_.raw(), scales_.bytes()};
}

PanelWeights PanelWeights::from_parts(const Header& h, BufferRef memory, BufferRef scales) {
  PanelWeights w;
  w.inner_ = h.inner;
  w.columns_ = h.columns;
  w.group_rows_ = h.group_rows;
  w.groups_ = h.groups;
  w.storage_ = static_cast<Storage>(h.storage);
  w.panel_bytes_ = static_cast<size_t>(h.panel_bytes);
  w.rounded_activations_ = h.rounded_activations != 0;
  const auto panels = static_cast<size_t>(w.panels());
  const size_t scale_bytes = panels * static_cast<size_t>(h.groups * kPanel) * sizeof(float);
  if (!memory || memory->capacity() != panels * w.panel_bytes_ || (scales ? scales->capacity() : 0) != scale_bytes)
    throw Error(Error::Kind::kInvalidArgument, fmt::format("packed weights ({}, {}) of {} bytes", h.inner, h.columns,
                                                           memory ? memory->capacity() : 0));
  w.memory_ = std::move(memory);
  if (scale_bytes > 0)
    w.scales_ = Tensor::from_buffer(DataType::kFloat, {w.panels(), h.groups, kPanel}, std::move(scales));
  return w;
}

PanelWeights PanelWeights::range(int64_t first, int64_t count) const {
  const auto whole = std::make_shared<const PanelWeights>(*this);
  PanelWeights w = *this;
  w.columns_ = count;
  const auto begin = first / kPanel;
  w.memory_ = BufferRef::view(panel(begin), static_cast<size_t>(w.panels()) * panel_bytes_, whole);
  if (scales_.defined()) {
    const Shape shape{w.panels(), groups_, kPanel};
    const size_t bytes = static_cast<size_t>(shape.count()) * sizeof(float);
    w.scales_ = Tensor::from_buffer(DataType::kFloat, shape, BufferRef::view(panel_scales(begin), bytes, whole));
  }
  return w;
}

size_t PanelWeights::bytes() const {
  return panel_bytes_ * static_cast<size_t>(panels()) + (scales_.defined() ? scales_.bytes() : 0);
}

}  // namespace attune
