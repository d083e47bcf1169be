#include "passes/constant_band.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace attune {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // 4096 positions

// Elements of a matrix, compared by their bytes.
class Matrix {
 public:
  explicit Matrix(const Tensor& t)
      : tensor_(t.to_contiguous()),
        rows_(t.dim(t.rank() - 2)),
        columns_(t.dim(t.rank() - 1)),
        size_(t.bytes() / static_cast<size_t>(t.count())) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Whether the elements at two places are the same.
  bool same(int64_t a, int64_t b) const { return std::memcmp(at(a), at(b), size_) == 0; }
  // The place of an element whose column is `distance` behind its row.
  int64_t on_diagonal(int64_t distance) const { return distance < 0 ? -distance * columns_ : distance; }
  double number(int64_t place) const {
    Tensor one = Tensor::allocate(tensor_.type(), {1});
    std::memcpy(one.mutable_raw(), at(place), size_);
    return one.to_double()[0];
  }

 private:
  const std::byte* at(int64_t place) const { return tensor_.raw() + static_cast<size_t>(place) * size_; }

  Tensor tensor_;
  int64_t rows_, columns_;
  size_t size_;
};

bool is_matrix_of_numbers(const Tensor& t) {
  constexpr std::array kTypes = {DataType::kBool,     DataType::kFloat,  DataType::kFloat16,
                                 DataType::kBFloat16, DataType::kDouble, DataType::kInt32,
                                 DataType::kInt64,    DataType::kUInt8,  DataType::kInt8};
  return std::find(kTypes.begin(), kTypes.end(), t.type()) != kTypes.end() && t.rank() >= 2 && t.count() > 0 &&
         t.count() <= kMaxElements && t.dim(t.rank() - 2) * t.dim(t.rank() - 1) == t.count();
}

}  // namespace

std::optional<ConstantBand> constant_band(const Tensor& t) {
  if (!is_matrix_of_numbers(t)) return std::nullopt;
  const Matrix m(t);
  // Runs of distances with one number: two, or three of which the outer ones are the same.
  const int64_t lowest = 1 - m.rows(), highest = m.columns() - 1;
  std::vector<int64_t> begins{lowest};
  for (int64_t d = lowest + 1; d <= highest; ++d) {
    if (!m.same(m.on_diagonal(d), m.on_diagonal(begins.back()))) begins.push_back(d);
    if (begins.size() > 3) return std::nullopt;
  }
  if (begins.size() == 3 && !m.same(m.on_diagonal(begins[0]), m.on_diagonal(begins[2]))) return std::nullopt;
  for (int64_t row = 1; row < m.rows(); ++row)
    for (int64_t column = 1; column < m.columns(); ++column)
      if (const int64_t place = row * m.columns() + column; !m.same(place, place - m.columns() - 1))
        return std::nullopt;
  const int64_t first = begins.size() == 1 ? lowest : begins[1];
  return ConstantBand{first, begins.size() == 3 ? begins[2] - 1 : highest, m.number(m.on_diagonal(first)),
                      m.number(m.on_diagonal(lowest))};
}

}  // namespace attune
