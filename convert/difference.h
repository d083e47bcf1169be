// How far two runs of a model are apart.
#pragma once

#include <string>
#include <vector>

#include "graph/tensor.h"

namespace attune {

struct Difference {
  double absolute = 0, largest = 0;
  double relative() const { return largest > 0 ? absolute / largest : absolute; }
};

// Widens `d` by the differences between the values, and the largest of `a`. Where `a` gives no number (a softmax over
// nothing), `b` may give one. Values of 1e9 and more beside smaller ones (fillers of masks) are no measure of these:
// they count with their relative difference, as one of the largest of the others.
void compare_values(const std::vector<double>& a, const std::vector<double>& b, Difference& d);

// Of one output, relative to the largest value of `a`. Halves of `b` are compared with floats of `a`. Throws
// Error(kInternal) where it is another kind of value or has another type or shape.
Difference compare_data(const std::string& output, const Datum& a, const Datum& b);

}  // namespace attune
