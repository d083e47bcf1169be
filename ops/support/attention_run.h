// One attention, from operands to outputs: what ai.attune::Attention and its standard counterparts share.
#pragma once

#include "ops/kernel.h"
#include "ops/support/attention_problem.h"

namespace attune {

// Computes outputs 0 to 4 of `call`: context, present_key, present_value, weights, next_position (those wanted).
// `operands` are projected; its pasts grow in place where nobody else holds them. Present outputs may be strided.
// Throws as resolve_attention.
void run_attention(const AttentionConfig& config, AttentionOperands& operands, KernelCall& call);

// What computes an attention of these attributes: "rowwise:AVX2", ...
std::string attention_implementation(const AttentionConfig& config);

// `tensor`, or a copy of it if its rows aren't contiguous.
Tensor with_contiguous_rows(const Tensor& tensor, BufferPool* pool);

}  // namespace attune
