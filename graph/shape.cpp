#include "graph/shape.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace attune {
namespace {

[[noreturn]] void fail_rank(size_t rank) {
  throw Error(Error::Kind::kLimit, fmt::format("a tensor of rank {}; at most {} is supported", rank, Shape::kMaxRank));
}

}  // namespace

Shape::Shape(std::span<const int64_t> sizes) : Shape() {
  if (sizes.size() > kMaxRank) fail_rank(sizes.size());
  rank_ = sizes.size();
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

void Shape::push_back(int64_t size) {
  if (rank_ == kMaxRank) fail_rank(rank_ + 1);
  sizes_[rank_++] = size;
}

void Shape::insert(size_t axis, int64_t size) {
  push_back(0);
  std::copy_backward(begin() + axis, end() - 1, end());
  sizes_[axis] = size;
}

void Shape::erase(size_t axis) noexcept {
  std::copy(begin() + axis + 1, end(), begin() + axis);
  --rank_;
}

void Shape::resize(size_t rank, int64_t fill) {
  if (rank > kMaxRank) fail_rank(rank);
  for (size_t i = rank_; i < rank; ++i) sizes_[i] = fill;
  rank_ = rank;
}

std::string Shape::to_string() const { return fmt::format("({})", fmt::join(begin(), end(), ",")); }

size_t normalize_axis(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    throw Error(Error::Kind::kInvalidArgument, fmt::format("axis {} is outside [-{}, {})", axis, rank, rank));
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out;
  out.resize(std::max(a.rank(), b.rank()));
  for (size_t i = 0; i < out.rank(); ++i) {
    const size_t from_end = out.rank() - i;
    const int64_t x = from_end <= a.rank() ? a[a.rank() - from_end] : 1;
    const int64_t y = from_end <= b.rank() ? b[b.rank() - from_end] : 1;
    if (x != y && x != 1 && y != 1)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("shapes {} and {} don't broadcast", a.to_string(), b.to_string()));
    out[i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace attune
