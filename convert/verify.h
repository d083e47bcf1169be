// Whether a converted model computes what its source computes.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune {

struct VerifyOptions {
  // Of the largest value of an output. None: by the model's precision, see default_tolerance().
  std::optional<double> tolerance;
  int threads = 0;  // 0: the physical cores
  // Called before each case; may be empty.
  std::function<void(size_t done, size_t total)> progress;
};

struct VerifiedCase {
  std::string sizes;         // "batch 2, source 7; right padding"
  std::string refused;       // why the source itself refuses these inputs; empty if it ran
  std::string worst_output;  // where the largest relative difference is
  double absolute = 0;       // largest absolute difference
  double relative = 0;       // largest difference relative to the largest value of its output
};

// Largest differences, relative to the largest value, from a float32 run (see float_reference.h).
struct ReferenceErrors {
  double source = 0, result = 0;
  double limit() const { return std::max(1.1 * source, 2e-2); }  // for `result`
};

struct Verification {
  std::vector<VerifiedCase> cases;
  double largest_absolute = 0, largest_relative = 0;
  double tolerance = 0;
  size_t compared = 0;  // cases that ran
  // Of coarse models, if no tolerance was asked for: what is judged beside the difference from the source.
  std::optional<ReferenceErrors> reference;
  // False too if nothing could be compared.
  bool passed() const {
    const bool meant = !reference || reference->result <= reference->limit();
    return compared > 0 && largest_relative <= tolerance && meant;
  }
};

// 1e-4 for float32 models; 2e-2 if values are float16, bfloat16 or quantised somewhere: there the order of operations
// moves a value by a rounding step (1/2048 of it, 1/255 of the range), which the layers after it amplify.
double default_tolerance(const Model& model);

// Runs both models on made-up inputs: every dynamic dimension at several sizes, masks with all kinds of padding, flags
// (use_cache_branch) both ways; where the source refuses all of these, because an export has fixed what it declares to
// be dynamic, at sizes that the graph's constants name. `source` and `result` must have inputs of the same names;
// outputs are compared by name; what the result has beyond is not looked at. Throws Error if the result can't run what
// the source can, or an output is missing.
Verification verify(const Model& source, const Model& result, const VerifyOptions& options = {});

}  // namespace attune
