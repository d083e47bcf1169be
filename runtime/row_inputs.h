// Decoders that read the memory of their sources, and their own caches, by an index of rows. Internal to the generator.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune {

// What an input of a decoder holds once it is read by an index.
enum class RowUse {
  kInOrder,  // no index: a row for each row of the step
  kSource,   // keys and values, or what they are made of: a row for each source
  kPast      // a cache: rows in any order
};

// The inputs that were added: int32 (rows, 1) and (rows, 1 + positions), see RowIndex in ops/support. Left out, rows
// are in order. Empty: there is none.
struct RowInputs {
  std::vector<RowUse> uses;  // of the inputs that were there
  std::string source_rows, past_rows;
};

// Lets the ai.attune Attention nodes of `decoder`, in its branches too, read inputs by an index: those of `candidates`
// (whose first axis is the batch) that nothing else reads but row by row on the way there, or for other sizes than the
// batch. So beams share the keys and values of their source, and caches are reordered without copying them.
RowInputs add_row_inputs(Graph& decoder, const std::vector<bool>& candidates);

}  // namespace attune
