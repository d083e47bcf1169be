// The attributes of ai.attune::Attention (docs: the operator's schema).
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace attune {

enum class AttentionScore { kScaledDot, kDot, kGeneral, kAdditive };
enum class AttentionAlignment { kSoft, kHard, kMonotonic };
enum class AttentionWeights { kRaw, kCapped, kBiased, kNormalized, kHeadMean };

struct AttentionConfig {
  int64_t num_heads = 0;     // 0: left out
  int64_t num_kv_heads = 0;  // 0: left out
  AttentionScore score = AttentionScore::kScaledDot;
  std::optional<float> scale;  // none: 1/sqrt(width of a query head)
  float softcap = 0;           // 0: none
  bool causal = false;
  int64_t window_left = -1;  // -1: unbounded
  int64_t window_right = -1;
  AttentionAlignment alignment = AttentionAlignment::kSoft;
  bool sample = false;
  int64_t seed = 0;
  int64_t chunk = 1;
  bool mean_of_empty_rows = false;
  AttentionWeights weights = AttentionWeights::kNormalized;
};

// Reads the attributes of an ai.attune::Attention node.
// Throws Error(kInvalidModel) that names the attribute, what was expected and what was found.
AttentionConfig read_attention_config(const Node& node);

}  // namespace attune
