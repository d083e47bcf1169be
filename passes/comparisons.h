// Where the elements of a graph's input are compared, as token ids are with that of padding.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace attune {

// The comparisons (Equal, Greater, Less ...) that take elements of `value`, followed through operators that keep them.
std::vector<Use> comparisons_of(const Value& value);

// The number that the other side of a comparison is in all elements; nothing if it isn't constant.
std::optional<double> compared_with(const Use& comparison);

}  // namespace attune
