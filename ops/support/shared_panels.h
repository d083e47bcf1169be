// Equal weights are kept once in a process: the branches of a merged decoder, and the decoder files for the first and
// for later steps, hold the same ones.
#pragma once

#include <memory>

#include "ops/support/panel_weights.h"

namespace attune {

// `panels`, or equal ones that somebody still holds. Thread-safe.
std::shared_ptr<const PanelWeights> share_panels(PanelWeights panels);

}  // namespace attune
