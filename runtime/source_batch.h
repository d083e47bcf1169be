// From what a caller gives to what an encoder takes. Internal to the generator.
#pragma once

#include <vector>

#include "runtime/generation_options.h"
#include "runtime/plan.h"
#include "runtime/session.h"

namespace attune {

// Sources that are encoded and decoded together.
struct SourceBatch {
  std::vector<size_t> sources;        // their places in the caller's inputs
  std::vector<Datum> encoder_inputs;  // in the order of the ports; undefined where a port has a default
  Tensor mask;                        // int64 (sources, length); undefined for features
  bool has_ids = false;
  std::vector<std::vector<int64_t>> ids;  // per source its real tokens; empty for features
};

// Binds inputs by name; token ids, their mask and lengths by kind. Columns that are padding in all sources go. An
// encoder that takes no mask gets sources of equal length only, without padding. Throws Error(kInvalidArgument).
std::vector<SourceBatch> make_batches(const TensorMap& inputs, const std::vector<Plan::Port>& ports,
                                      const GenerationOptions& options);

}  // namespace attune
