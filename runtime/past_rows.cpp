#include "runtime/past_rows.h"

#include <algorithm>

#include "ops/support/row_index.h"

namespace attune {

void PastRows::clear() {
  rows_.clear();
  columns_ = 0;
}

void PastRows::follow(std::span<const int32_t> parents, int64_t positions) {
  const RowIndex before{rows_.empty() ? nullptr : rows_.data(), columns_};
  const auto lies = [&](int32_t row, int64_t position) { return before ? before.at(row, position) : row; };
  std::vector<int32_t> sorted(parents.begin(), parents.end());
  std::sort(sorted.begin(), sorted.end());
  const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  // Rows that only change places take what they have along.
  const int64_t columns = distinct ? columns_ : positions;
  std::vector<int32_t> rows;
  rows.reserve(parents.size() * static_cast<size_t>(1 + columns));
  for (size_t i = 0; i < parents.size(); ++i) {
    rows.push_back(distinct ? static_cast<int32_t>(lies(parents[i], positions)) : static_cast<int32_t>(i));
    for (int64_t p = 0; p < columns; ++p) rows.push_back(static_cast<int32_t>(lies(parents[i], p)));
  }
  rows_ = std::move(rows);
  columns_ = columns;
}

Datum PastRows::index(BufferPool* pool) const {
  if (rows_.empty()) return {};
  const int64_t width = 1 + columns_;
  Tensor t = Tensor::allocate(DataType::kInt32, {static_cast<int64_t>(rows_.size()) / width, width}, pool);
  std::copy(rows_.begin(), rows_.end(), t.mutable_data<int32_t>());
  return t;
}

}  // namespace attune
