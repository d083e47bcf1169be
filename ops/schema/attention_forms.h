// Attention operators of other domains as ai.attune::Attention: what raising puts in their place, and what runs where
// they have no kernel of their own.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace attune {

// True if the node's operator has such a form.
bool has_attention_form(const Node& node);

// A function to inline in place of `node` (see graph/inline.h) that holds one ai.attune::Attention, with standard
// operators of opset `opset` around it; nothing if the node's operator has no such form. Serves ai.onnx::Attention and
// com.microsoft's Attention, QAttention, MultiHeadAttention, DecoderMaskedMultiHeadAttention and GroupQueryAttention;
// AttnLSTM, with one for each direction inside a Scan; and RotaryEmbedding, which becomes standard operators alone.
// The static types of the node's inputs must be known. Throws Error(kUnsupported) with the reason where the node asks
// for what the form doesn't give.
std::optional<Function> attention_form(const Node& node, int64_t opset);

}  // namespace attune
