// A pass rewrites a graph; every result is a valid ONNX model with the same meaning.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/report.h"

namespace attune {

struct PassOptions {
  // Stop after so many rewrites (bisection); -1: no bound. Clean-up doesn't count: functions and branches that are
  // inlined, constants and sizes that are computed, nodes without effect.
  int64_t max_rewrites = -1;
};

struct PassContext {
  Model& model;
  Report& report;
  const PassOptions& options;
  // Receives why rules did not match where an operator that they end with is, if given.
  std::vector<NearMiss>* misses = nullptr;

  // Whether there may be another rewrite; each is recorded in the report.
  bool may_rewrite() const {
    return options.max_rewrites < 0 || report.rewrites.size() < static_cast<size_t>(options.max_rewrites);
  }
};

struct Pass {
  std::string_view name;         // starts with a verb: fuse_, lower_, eliminate_, fold_, infer_
  std::string_view description;  // one sentence, for the generated table
  // Gives the number of changes.
  size_t (*run)(PassContext&);
};

// THE ordered list.
std::span<const Pass> pipeline();
// Runs it. Throws Error with the pass's name as a frame.
void optimize(Model& model, Report& report, const PassOptions& options = {});

}  // namespace attune
