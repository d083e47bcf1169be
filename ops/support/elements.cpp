#include "ops/support/elements.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace attune {
namespace {

// Below this taking an input over costs more than new memory.
constexpr size_t kReuseBytes = 4096;

}  // namespace

Shape read_integers(const KernelCall& call, size_t input) {
  const Tensor& t = call.input(input);
  if (t.count() > static_cast<int64_t>(Shape::kMaxRank))
    throw Error(Error::Kind::kLimit,
                fmt::format("input {}: {} values; at most {} are supported", input, t.count(), Shape::kMaxRank));
  const IndexReader values(t, input);
  Shape out;
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(values[i]);
  return out;
}

int64_t read_integer(const KernelCall& call, size_t input) {
  const Tensor& t = call.input(input);
  if (t.count() != 1) fail_input(input, "one element", fmt::format("shape {}", t.shape().to_string()));
  if (t.type() == DataType::kInt64) return t.data<int64_t>()[0];
  if (t.type() == DataType::kBool) return t.data<bool>()[0];
  return t.to_int64()[0];
}

double read_number(const Tensor& tensor, size_t input) {
  if (tensor.count() != 1) fail_input(input, "one element", fmt::format("shape {}", tensor.shape().to_string()));
  return tensor.type() == DataType::kFloat ? double{tensor.data<float>()[0]} : tensor.to_double()[0];
}

IndexReader::IndexReader(const Tensor& tensor, size_t input)
    : data_(tensor.raw()), wide_(tensor.type() == DataType::kInt64) {
  if (!wide_ && tensor.type() != DataType::kInt32) fail_input(input, "int32 or int64", name(tensor.type()));
}

void fail_index(int64_t index, int64_t size) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("index {} is outside [-{}, {})", index, size, size));
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(Error::Kind::kLimit, fmt::format("a size of {} times {}", a, b));
  return product;
}

Shape normalize_axes(const Shape& axes, size_t rank) {
  Shape out;
  for (const int64_t axis : axes) {
    const auto a = static_cast<int64_t>(normalize_axis(axis, rank));
    if (std::find(out.begin(), out.end(), a) != out.end())
      throw Error(Error::Kind::kInvalidArgument, fmt::format("axis {} is given twice", axis));
    out.push_back(a);
  }
  return out;
}

Tensor reuse_or_allocate(KernelCall& call, size_t input, DataType type, const Shape& shape, Tensor& taken) {
  const Tensor& held = call.input(input);
  const bool fits = held.shape() == shape && held.contiguous() && held.type() != DataType::kString &&
                    type != DataType::kString && element_bits(held.type()) == element_bits(type);
  if (!fits || held.bytes() < kReuseBytes) {
    taken = held;
    return Tensor::allocate(type, shape, call.pool());
  }
  {
    const Datum datum = call.take(input);
    taken = datum.tensor();
  }
  if (!taken.unique()) return Tensor::allocate(type, shape, call.pool());
  const auto offset = static_cast<size_t>(taken.raw() - taken.buffer()->data());
  return Tensor::from_buffer(type, shape, taken.buffer(), offset);
}

Tensor take_or_copy(KernelCall& call, size_t input) {
  Tensor tensor;
  {
    const Datum taken = call.take(input);
    tensor = taken.tensor();
  }
  return tensor.unique() ? tensor : tensor.clone(call.pool());
}

}  // namespace attune
