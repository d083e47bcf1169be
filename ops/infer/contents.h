// Work with shapes, and with the contents of small tensors.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ops/infer/infer.h"

namespace attune {

// Nothing above kMaxElements, or for types other than numbers and bool.
std::optional<SymbolicTensor> contents_of(const Tensor& tensor);
// A tensor of unknown elements; nothing if the shape isn't constant and small.
std::optional<SymbolicTensor> unknown_contents(DataType type, const std::optional<Dims>& shape);
// True if an element is known.
bool any_known(const SymbolicTensor& contents);

Dims to_dims(std::span<const int64_t> sizes);
// Nothing unless all are constant.
std::optional<std::vector<int64_t>> to_sizes(const Dims& dims);
// What holds for both: sizes that differ are unknown.
std::optional<Dims> common_shape(const std::optional<Dims>& a, const std::optional<Dims>& b);
// The number of elements; nothing above kMaxElements.
std::optional<size_t> small_count(std::span<const int64_t> sizes);

// A tensor of `shape` whose element i is element indices[i] of `from`.
SymbolicTensor pick(const SymbolicTensor& from, std::vector<int64_t> shape, std::span<const size_t> indices);
// For each element of `to`, the index of the element that broadcasts to it.
std::vector<size_t> broadcast_indices(std::span<const int64_t> from, std::span<const int64_t> to);
// Calls `f(coordinates)` for each element of `shape`, row major.
void for_each_index(std::span<const int64_t> shape, const std::function<void(std::span<const int64_t>)>& f);

// `value` as a tensor of `type` holds it: rounded for floats.
double round_to(DataType type, double value);
// Unknown if a constant doesn't fit into `type`.
Dim fit_to(DataType type, const Dim& value);

}  // namespace attune
