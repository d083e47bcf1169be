// Whether a converted model computes what its source computes.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/sample_sizes.h"
#include "graph/graph.h"
#include "runtime/session.h"

namespace attune {

// Of the largest value of an output: how far float32 computations in different orders may be apart.
constexpr double kFloatTolerance = 1e-4;

struct VerifyOptions {
  // Of the largest value of an output. None: by the model's precision, see default_tolerance().
  std::optional<double> tolerance;
  int threads = 0;  // 0: the physical cores
  // Of processor time, spent on runs that the source refuses, after which no further sizes are tried.
  double search_seconds = 8;
  // Sizes that are not made up, by the names of the inputs' symbols; INPUT#AXIS where none is declared.
  GivenSizes sizes;
  // What is compared on, instead of made-up inputs; empty: those.
  TensorMap inputs;
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
  // How far the result's own float32 run is from the source's, where the two models are further apart than the
  // tolerance; none: they aren't, or there is no such run.
  std::optional<double> meaning = std::nullopt;
  // Without their rounding both compute the same.
  bool mean_the_same() const { return meaning && *meaning <= kFloatTolerance; }
};

struct Verification {
  std::vector<VerifiedCase> cases;
  double largest_absolute = 0, largest_relative = 0;
  double tolerance = 0;
  size_t tried = 0;     // runs of the source, also those that it refused
  size_t compared = 0;  // cases that ran
  // Why the source refuses all made-up inputs, where that is the same for all sizes, and none were given: it can't run.
  std::optional<std::string> always_refused;
  // Of coarse models, if no tolerance was asked for: what is judged beside the difference from the source.
  std::optional<ReferenceErrors> reference;
  // For the result's distance from the float32 run: what is asked for, or a tenth more than the source's.
  double reference_limit() const { return std::max(tolerance, reference ? 1.1 * reference->source : 0); }
  // For its distance from the source: likewise, where both may err, but never more than 2e-2 by the source's error,
  // unless what lies between them is known to be rounding: both mean the same, or the result has less than half of the
  // source's error. Then it may be both errors together.
  double source_limit() const {
    if (reference && (reference->mean_the_same() || reference->result <= 0.5 * reference->source))
      return std::max(tolerance, reference->source + reference->result);
    return std::max(tolerance, std::min(reference_limit(), 2e-2));
  }
  // False too if nothing could be compared.
  bool passed() const {
    const bool meant = !reference || reference->result <= reference_limit();
    return compared > 0 && largest_relative <= source_limit() && meant;
  }
};

// Whether a model rounds numbers to integers as it runs.
bool quantises(const Model& model);

// 1e-4 for float32 models. Of coarse numbers the order of operations moves a value by a rounding step (1/2048 of it,
// 1/255 of the range), which the layers after it amplify: 5e-3 if values are quantised somewhere, 1e-2 if they are
// float16, 2e-2 if they are bfloat16.
double default_tolerance(const Model& model);

// Runs both models on made-up inputs: every dynamic dimension at several sizes, masks with all kinds of padding, flags
// (use_cache_branch) both ways. Sizes are those that operators need together (see sample_forms()). Where the source
// refuses all of these, because an export has fixed what it declares to be dynamic: at sizes that the graph's constants
// name, unless the refusals show that no size helps. Inputs that would take more memory than such a model needs (see
// SampleMemory) count as refused. `source` and `result` must have inputs of the same names; outputs are compared by
// name; what the result has beyond is not looked at. Throws Error if the result can't run what the source can, an
// output is missing, or the source refuses inputs that were given.
Verification verify(const Model& source, const Model& result, const VerifyOptions& options = {});

}  // namespace attune
