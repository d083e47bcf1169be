#include "ops/kernel.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace attune {

const Tensor& KernelCall::input(size_t i) const {
  if (!has(i)) throw Error(Error::Kind::kInvalidArgument, fmt::format("input {} is required", i));
  return within([&] { return fmt::format("input {}", i); }, [&]() -> const Tensor& { return datum(i).tensor(); });
}

const Tensor* KernelCall::optional_input(size_t i) const { return has(i) ? &input(i) : nullptr; }

Tensor& KernelCall::output(size_t i, DataType type, const Shape& shape) {
  set_datum(i, Datum(Tensor::allocate(type, shape, pool())));
  return stored_tensor(i);
}

void fail_input(size_t input, std::string_view expected, std::string_view got) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("input {}: expected {}, got {}", input, expected, got));
}

void expect_type(const Tensor& tensor, size_t input, DataType type) {
  if (tensor.type() != type) fail_input(input, name(type), name(tensor.type()));
}

void expect_rank(const Tensor& tensor, size_t input, size_t rank) {
  if (tensor.rank() != rank)
    fail_input(input, fmt::format("rank {}", rank), fmt::format("shape {}", tensor.shape().to_string()));
}

void fail_type(DataType type) {
  throw Error(Error::Kind::kUnsupported, fmt::format("has no kernel for element type {}", name(type)));
}

}  // namespace attune
