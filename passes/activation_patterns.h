// Activations as exporters spell them out.
#pragma once

#include <vector>

#include "passes/pattern/pattern.h"

namespace attune {

struct ActivationPattern {
  const char* name;  // as the attribute `activation` of ai.attune::Linear has it
  pattern::Pat pattern;
};

// Activations of `x`.
std::vector<ActivationPattern> activations_of(const pattern::Pat& x);

}  // namespace attune
