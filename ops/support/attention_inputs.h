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

enum AttentionOutput : size_t {
  kAttentionContext,
  kAttentionPresentKey,
  kAttentionPresentValue,
  kAttentionWeights,
  kAttentionNextPosition,
  kAttentionOutputs
};

}  // namespace attune
