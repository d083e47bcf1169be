// Where the caches of a decoder's rows lie, as beams go on from each other. Internal to the generator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace attune {

class PastRows {
 public:
  // All rows in order.
  void clear();
  // Row i of the next step goes on from row parents[i] of the last one; caches have `positions`. Rows that go on from
  // one share its caches so far; each gets a row of its own for what comes.
  void follow(std::span<const int32_t> parents, int64_t positions);
  // int32 (rows, 1 + columns), see RowIndex; undefined while rows are in order.
  Datum index(BufferPool* pool) const;

 private:
  std::vector<int32_t> rows_;  // of the index; empty: in order
  int64_t columns_ = 0;
};

}  // namespace attune
