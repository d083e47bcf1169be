#include "ops/infer/contents.h"

#include <algorithm>
#include <limits>

namespace attune {

std::optional<size_t> small_count(std::span<const int64_t> sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || size > static_cast<int64_t>(SymbolicTensor::kMaxElements)) return std::nullopt;
    count *= static_cast<size_t>(size);
    if (count > SymbolicTensor::kMaxElements) return std::nullopt;
  }
  return count;
}

std::optional<SymbolicTensor> contents_of(const Tensor& tensor) {
  if (!tensor.defined() || !small_count(tensor.shape().span())) return std::nullopt;
  const auto shape = tensor.shape().span();
  SymbolicTensor out{tensor.type(), {shape.begin(), shape.end()}, {}, {}};
  if (is_float(tensor.type())) {
    for (const double v : tensor.to_double()) out.reals.emplace_back(v);
  } else if (is_integer(tensor.type()) || tensor.type() == DataType::kBool) {
    for (const int64_t v : tensor.to_int64()) out.integers.emplace_back(v);
  } else {
    return std::nullopt;
  }
  return out;
}

std::optional<SymbolicTensor> unknown_contents(DataType type, const std::optional<Dims>& shape) {
  if (!shape) return std::nullopt;
  auto sizes = to_sizes(*shape);
  if (!sizes) return std::nullopt;
  const auto count = small_count(*sizes);
  if (!count) return std::nullopt;
  SymbolicTensor out{type, std::move(*sizes), {}, {}};
  if (is_float(type)) {
    out.reals.resize(*count);
  } else if (is_integer(type) || type == DataType::kBool) {
    out.integers.resize(*count);
  } else {
    return std::nullopt;
  }
  return out;
}

bool any_known(const SymbolicTensor& contents) {
  if (contents.size() == 0) return true;
  return std::any_of(contents.integers.begin(), contents.integers.end(), [](const Dim& d) { return d.known(); }) ||
         std::any_of(contents.reals.begin(), contents.reals.end(), [](const auto& r) { return r.has_value(); });
}

Dims to_dims(std::span<const int64_t> sizes) { return {sizes.begin(), sizes.end()}; }

std::optional<std::vector<int64_t>> to_sizes(const Dims& dims) {
  std::vector<int64_t> out;
  out.reserve(dims.size());
  for (const Dim& d : dims) {
    const auto c = d.constant();
    if (!c) return std::nullopt;
    out.push_back(*c);
  }
  return out;
}

std::optional<Dims> common_shape(const std::optional<Dims>& a, const std::optional<Dims>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  Dims out = *a;
  for (size_t i = 0; i < out.size(); ++i)
    if (!(out[i] == (*b)[i])) out[i] = Dim();
  return out;
}

SymbolicTensor pick(const SymbolicTensor& from, std::vector<int64_t> shape, std::span<const size_t> indices) {
  SymbolicTensor out{from.type, std::move(shape), {}, {}};
  for (const size_t i : indices) {
    if (from.is_integer()) {
      out.integers.push_back(from.integers[i]);
    } else {
      out.reals.push_back(from.reals[i]);
    }
  }
  return out;
}

std::vector<size_t> broadcast_indices(std::span<const int64_t> from, std::span<const int64_t> to) {
  std::vector<size_t> out;
  for_each_index(to, [&](std::span<const int64_t> at) {
    size_t index = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t coordinate = from[i] == 1 ? 0 : at[at.size() - from.size() + i];
      index = index * static_cast<size_t>(from[i]) + static_cast<size_t>(coordinate);
    }
    out.push_back(index);
  });
  return out;
}

void for_each_index(std::span<const int64_t> shape, const std::function<void(std::span<const int64_t>)>& f) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    f(at);
    size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

double round_to(DataType type, double value) {
  switch (type) {
    case DataType::kFloat:
      return static_cast<double>(static_cast<float>(value));
    case DataType::kFloat16:
      return static_cast<double>(static_cast<float>(Float16(static_cast<float>(value))));
    case DataType::kBFloat16:
      return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
    default:
      return value;
  }
}

Dim fit_to(DataType type, const Dim& value) {
  const auto constant = value.constant();
  if (!constant || type == DataType::kInt64) return value;
  if (type == DataType::kUInt64) return *constant >= 0 ? value : Dim();
  const int bits = element_bits(type);
  const bool is_signed = is_signed_integer(type);
  const int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  const int64_t low = is_signed ? -high - 1 : 0;
  return *constant >= low && *constant <= high ? value : Dim();
}

}  // namespace attune
