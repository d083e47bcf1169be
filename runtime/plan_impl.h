// What a Plan holds. Internal to the runtime.
#pragma once

#include "runtime/index_limits.h"
#include "runtime/input_check.h"
#include "runtime/plan.h"
#include "runtime/program.h"

namespace attune {

struct Plan::Impl {
  std::vector<Port> inputs, outputs;
  std::vector<bool> fixed;                         // per input
  std::vector<std::optional<Tensor>> defaults;     // per input
  std::vector<std::shared_ptr<Program>> programs;  // the first is the graph's
  std::unique_ptr<InputCheck> check;
  std::vector<IndexLimit> index_limits;

  const Program& program() const { return *programs.front(); }
};

}  // namespace attune
