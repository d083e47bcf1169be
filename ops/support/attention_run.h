// One attention, from operands to outputs: what ai.attune::Attention and its counterparts in other domains share.
#pragma once

#include <string>

#include "ops/kernel.h"
#include "ops/support/attention_problem.h"

namespace attune {

// Outputs besides the context that are wanted.
struct AttentionWanted {
  bool present_key = false, present_value = false, weights = false, next_position = false;
  KernelCall* call = nullptr;  // whose output 0 the context is written to, if it isn't null

  // Of outputs 1 to 4 of a call, in this order.
  static AttentionWanted of(KernelCall& call) {
    return {call.wants(1), call.wants(2), call.wants(3), call.wants(4), &call};
  }
};

// Undefined: not wanted, or a context that was written to the call. Presents may be strided.
struct AttentionOutputs {
  Tensor context, present_key, present_value, weights, next_position;

  // Sets outputs 0 to 4 of a call, in this order.
  void store(KernelCall& call);
};

// `operands` are projected; its pasts grow in place where nobody else holds them. Throws as resolve_attention.
AttentionOutputs run_attention(const AttentionConfig& config, AttentionOperands& operands,
                               const AttentionWanted& wanted, BufferPool* pool);

// What computes an attention of these attributes: "rowwise:AVX2", ...
std::string attention_implementation(const AttentionConfig& config);

}  // namespace attune
