#include "ops/support/attention_projection.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/kernel.h"
#include "ops/support/attention_rows.h"

namespace attune {
namespace {

[[noreturn]] void fail(std::string_view what, std::string_view expected, const Tensor& got) {
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("{}: expected {}, got {} {}", what, expected, name(got.type()), got.shape().to_string()));
}

template <class T>
void project_rows(const Tensor& x, const Tensor* w, const Tensor* b, Tensor& out) {
  using A = Accumulator<T>;
  const int64_t rows = x.dim(0) * x.dim(1), inner = x.dim(2), columns = out.dim(2);
  std::vector<A> input(static_cast<size_t>(inner)), sums(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = x.data<T>() + r * inner;
    for (int64_t i = 0; i < inner; ++i) input[static_cast<size_t>(i)] = static_cast<A>(from[i]);
    for (int64_t j = 0; j < columns; ++j) sums[static_cast<size_t>(j)] = b ? static_cast<A>(b->data<T>()[j]) : A{0};
    if (w) {
      add_weighted(RowBlock<T>{w->data<T>(), columns, inner, columns}, input.data(), sums.data());
    } else {
      for (int64_t j = 0; j < columns; ++j) sums[static_cast<size_t>(j)] += input[static_cast<size_t>(j)];
    }
    std::transform(sums.begin(), sums.end(), out.mutable_data<T>() + r * columns, [](A s) { return static_cast<T>(s); });
  }
}

}  // namespace

Tensor project(const Tensor& x, const Tensor* w, const Tensor* b, std::string_view what, BufferPool* pool) {
  if (!w && !b) return x;
  if (x.rank() != 3) fail(what, "rank 3 beside a projection", x);
  const int64_t columns = w && w->rank() == 2 ? w->dim(1) : x.dim(2);
  if (w && (w->rank() != 2 || w->dim(0) != x.dim(2) || w->type() != x.type()))
    fail(fmt::format("w_{}", what), fmt::format("{} ({}, columns)", name(x.type()), x.dim(2)), *w);
  if (b && (b->rank() != 1 || b->dim(0) != columns || b->type() != x.type()))
    fail(fmt::format("b_{}", what), fmt::format("{} ({})", name(x.type()), columns), *b);
  Tensor out = Tensor::allocate(x.type(), {x.dim(0), x.dim(1), columns}, pool);
  dispatch<float, Float16, BFloat16, double>(x.type(), [&]<class T>() { project_rows<T>(x, w, b, out); });
  return out;
}

}  // namespace attune
