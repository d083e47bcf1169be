// What the inputs and outputs of a decoder are for. Internal to the generator.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace attune {

enum class PortRole {
  kTokens,         // the tokens so far, or the last one
  kPositions,      // their positions
  kMemory,         // output `index` of the encoder
  kSource,         // input `index` of the encoder (a mask, lengths)
  kSourceMask,     // 1 where the source is real; the encoder has no such input
  kSourceLengths,  // its sum
  kTargetMask,     // 1 for each token so far
  kShortlist,      // the tokens that are scored
  kSourceRows,     // the source of each row (see row_inputs.h)
  kPastRows,       // where the caches of each row lie
  kSelection,      // which tokens are to be chosen (see selection.h)
  kSelectionOffsets,
  kCacheBranch,  // true if caches are given (merged decoders)
  kState         // state `index`: what the step before gave
};

struct PortBinding {
  PortRole role;
  size_t index = 0;
};

// A value that goes from step to step, or is set by the first and stays.
struct StateSlot {
  std::string key;                       // its name without "past", "present", "new" ...
  ValueType type;                        // of the input
  std::optional<size_t> encoder_output;  // where it starts; else a first decoder gives it, or it starts with zeros
  bool updated = false;                  // the decoder that takes it gives it too
};

struct DecoderPorts {
  std::vector<PortBinding> inputs;
  size_t logits = 0;                                 // output
  std::vector<std::optional<size_t>> state_outputs;  // per state
  std::vector<size_t> others;                        // outputs that are neither: alignments, maybe
};

struct DecoderGraph {
  const std::vector<Plan::Port>& inputs;
  const std::vector<Plan::Port>& outputs;
};

// Assigns the ports of a decoder. States are inputs with an output of corresponding name and type, or else of the only
// corresponding type; `states` grows by those that are new. Call it for the decoder of the first step first.
// Throws Error(kInvalidModel) that lists inputs whose role can't be told.
DecoderPorts assign_ports(const DecoderGraph& decoder, const DecoderGraph& encoder, std::vector<StateSlot>& states);

}  // namespace attune
