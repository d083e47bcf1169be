// Where packed weights come from: packed now, held by another plan of this process, or kept by an earlier one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/support/panel_weights.h"

namespace attune {

// What weights are packed from. Equal sources give equal panels.
struct PanelSource {
  std::vector<Tensor> tensors;  // one matrix, or several side by side, quantised ones each with its scales
  bool transposed = false;
  int64_t group = 0;  // of quantised values: rows that share a scale; 0: all
  bool rounded_activations = false;
};

using PackPanels = std::function<PanelWeights()>;

// A store other than the process itself (KernelOptions::panel_store).
class PanelStore {
 public:
  virtual ~PanelStore() = default;
  // The panels of `source`: those that are kept, or what `pack` gives.
  virtual std::shared_ptr<const PanelWeights> panels(const PanelSource& source, const PackPanels& pack) = 0;
};

// Equal weights are packed and kept once in a process: the branches of a merged decoder, and the decoder files for the
// first and for later steps, hold the same ones. Sources are told apart by 128 bits of hash. Thread-safe.
std::shared_ptr<const PanelWeights> share_panels(const PanelSource& source, const PackPanels& pack);

}  // namespace attune
