// Where the rows of an attention's keys and values lie, if not in the order of its queries.
#pragma once

#include <cstdint>

namespace attune {

// A view of int32 (rows, 1 + columns): row r lies in row [r][0] of memory, but its position p < columns (on the axis of
// time) in row [r][1 + p]. Beams that go on from one share what came before, and have rows of their own from then on.
struct RowIndex {
  const int32_t* data = nullptr;  // null: row r lies in row r
  int64_t columns = 0;

  explicit operator bool() const { return data != nullptr; }
  const int32_t* of(int64_t row) const { return data + row * (1 + columns); }
  int64_t at(int64_t row, int64_t position) const { return of(row)[position < columns ? 1 + position : 0]; }
};

}  // namespace attune
