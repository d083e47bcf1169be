// The shape of a tensor at run time: up to 12 sizes, stored inline (no allocation).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

namespace attune {

class Shape {
 public:
  static constexpr size_t kMaxRank = 12;

  Shape() noexcept { std::fill_n(sizes_.begin(), kFew, int64_t{0}); }  // a scalar
  Shape(const Shape& other) noexcept { *this = other; }
  Shape& operator=(const Shape& other) noexcept {
    rank_ = other.rank_;
    std::copy_n(other.sizes_.begin(), kFew, sizes_.begin());
    for (size_t i = kFew; i < rank_; ++i) sizes_[i] = other.sizes_[i];
    return *this;
  }
  ~Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  // Throws Error(kLimit) above kMaxRank.
  explicit Shape(std::span<const int64_t> sizes);

  size_t rank() const noexcept { return rank_; }
  size_t size() const noexcept { return rank_; }
  bool empty() const noexcept { return rank_ == 0; }
  int64_t& operator[](size_t axis) noexcept { return sizes_[axis]; }
  int64_t operator[](size_t axis) const noexcept { return sizes_[axis]; }
  int64_t back() const noexcept { return sizes_[rank_ - 1]; }
  int64_t& back() noexcept { return sizes_[rank_ - 1]; }
  int64_t front() const noexcept { return sizes_[0]; }
  int64_t* begin() noexcept { return sizes_.data(); }
  int64_t* end() noexcept { return sizes_.data() + rank_; }
  const int64_t* begin() const noexcept { return sizes_.data(); }
  const int64_t* end() const noexcept { return sizes_.data() + rank_; }
  const int64_t* data() const noexcept { return sizes_.data(); }
  void push_back(int64_t size);            // throws Error(kLimit) above kMaxRank
  void insert(size_t axis, int64_t size);  // before `axis`; throws as push_back
  void erase(size_t axis) noexcept;
  void resize(size_t rank, int64_t fill = 1);  // throws as push_back
  Shape first(size_t n) const { return Shape(std::span(begin(), n)); }
  Shape last(size_t n) const { return Shape(std::span(end() - n, n)); }
  std::span<const int64_t> span() const noexcept { return {begin(), rank_}; }

  // The product of the sizes from `begin_axis` to before `end_axis`; 1 for none. At most the largest int64_t.
  int64_t count(size_t begin_axis, size_t end_axis) const noexcept {
    int64_t n = 1;
    for (size_t i = begin_axis; i < end_axis; ++i)
      if (__builtin_mul_overflow(n, sizes_[i], &n)) n = std::numeric_limits<int64_t>::max();
    return n;
  }
  int64_t count() const noexcept { return count(0, rank_); }
  std::string to_string() const;  // "(2,3)"

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr size_t kFew = 4;  // sizes that are always set, so that most copies are short and without a branch
  size_t rank_ = 0;
  std::array<int64_t, kMaxRank> sizes_;
};

// `axis` of an ONNX attribute (negative counts from the end) as an index.
// Throws Error(kInvalidArgument) outside [-rank, rank).
size_t normalize_axis(int64_t axis, size_t rank);

// The shape both broadcast to (ONNX multidirectional broadcasting).
// Throws Error(kInvalidArgument) that names both shapes where they don't agree.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace attune
