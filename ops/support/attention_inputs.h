// Positions of the inputs and outputs of ai.attune::Attention.
#pragma once

#include <cstddef>

namespace attune {

enum AttentionInput : size_t {
  kAttentionQuery,
  kAttentionKey,
  kAttentionValue,
  kAttentionQueryWeight,
  kAttentionKeyWeight,
  kAttentionValueWeight,
  kAttentionQueryBias,
  kAttentionKeyBias,
  kAttentionValueBias,
  kAttentionMask,
  kAttentionKeyLengths,
  kAttentionPastKey,
  kAttentionPastValue,
  kAttentionScoreWeight,
  kAttentionScoreBias,
  kAttentionPosition,
  kAttentionQueryPosition,
  kAttentionDraw,
  kAttentionInputs
};

// Inputs that no file has: a runtime gives them to nodes whose memory has another batch than their queries.
// Each is int32 (B, 1 + columns), see RowIndex; with no elements it counts as left out.
enum AttentionRowInput : size_t {
  kAttentionMemoryRows = kAttentionInputs,  // of keys and values, which then are no presents
  kAttentionPastRows                        // of pasts and presents; each row has one of its own for what is new
};

enum AttentionOutput : size_t {
  kAttentionContext,
  kAttentionPresentKey,
  kAttentionPresentValue,
  kAttentionWeights,
  kAttentionNextPosition,
  kAttentionOutputs
};

}  // namespace attune
