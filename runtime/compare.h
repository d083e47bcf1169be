// Whether results are what was expected.
#pragma once

#include <string>

#include "graph/tensor.h"

namespace attune {

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct Comparison {
  // Empty if they agree; else where they first differ, what was expected and what was found.
  std::string difference;
  double largest_absolute = 0;  // over finite pairs, whether they agree or not
  double largest_expected = 0;  // of the finite expected values, by magnitude

  bool equal() const { return difference.empty(); }
};

// Kinds, element types, shapes and strings must be the same; numbers x expected and y found agree if
// |x - y| <= absolute + relative |x|, or both are NaN, or the same infinity.
Comparison compare(const Datum& expected, const Datum& found, const Tolerance& tolerance);

}  // namespace attune
