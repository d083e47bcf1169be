// The passes that pipeline.cpp orders. Each gives the number of changes.
#pragma once

#include <unordered_map>
#include <vector>

#include "passes/pass.h"

namespace attune {

// Nodes whose results nobody uses, and constants nobody uses.
size_t eliminate_dead(PassContext&);
// Nodes that compute what another node computes, and equal small constants.
size_t eliminate_common_subexpressions(PassContext&);
// Nodes that give one of their inputs: Identity, Where with a known condition, Cast to the same type, Expand, Reshape,
// Slice, Transpose without effect, Dropout outside of training; chains of Transpose, of Reshape and of Cast that are
// one.
size_t eliminate_identities(PassContext&);
// Constant nodes become constants of the graph; nodes of constants alone are computed, as long as the result isn't
// much larger. DequantizeLinear of constants stays: a weight in quantised storage.
size_t fold_constants(PassContext&);
// Integers that inference knows as expressions over sizes of inputs are computed from these inputs alone, so that
// Shape of an inner value neither keeps it alive nor orders work.
size_t simplify_shapes(PassContext&);
// Sizes of inputs that a Reshape, MatMul or Concat of the outermost graph forces to be equal, or to be a number, become
// so. (An input without elements would not be forced by a Reshape.)
size_t tie_sizes(PassContext&);
// The size of a mask that inputs of states have by the same name, though the graph works with different ones.
size_t untie_sizes(PassContext&);
// Calls of model-local functions by their bodies.
size_t inline_functions(PassContext&);
// If with a condition that is known, by the branch.
size_t inline_static_if(PassContext&);
// Linear layers over folded or regrouped rows, over the rows as they were.
size_t normalize_folded_rows(PassContext&);
// Spellings of exporters that the rules need not know: the softmax's axis written out, reshape round trips.
size_t normalize_forms(PassContext&);

// Transposes of batch and time move in front of the linear layers whose results they transpose.
size_t normalize_projections(PassContext&);

size_t fuse_attention(PassContext&);
// Changes nothing: reports each softmax that is left.
size_t explain_softmaxes(PassContext&);
// Changes nothing: reports weights that are normalised in another way than a softmax.
size_t explain_normalizations(PassContext&);
// Changes nothing: reports projections and heads that stay outside of an Attention.
size_t explain_projections(PassContext&);
size_t fuse_additive_attention(PassContext&);
size_t fuse_attention_groups(PassContext&);
size_t fuse_attention_cache(PassContext&);
size_t fuse_attention_heads(PassContext&);
size_t fuse_attention_scale(PassContext&);
size_t fuse_qkv_projection(PassContext&);
// Masks in their cheapest exact form: as the attribute `causal`, as a condition over keys, or none.
size_t simplify_masks(PassContext&);
// T5's position bias from its buckets.
size_t fuse_position_bias(PassContext&);
// A table of positions, learned or sinusoidal, added to the states that it belongs to.
size_t fuse_position_embedding(PassContext&);
size_t fuse_normalization(PassContext&);
size_t fuse_residual_normalization(PassContext&);
size_t fuse_linear(PassContext&);
size_t fuse_gelu(PassContext&);

// Copies the nodes and constants of `body` in front of `node`, with values replaced by `mapping` (a null: left out),
// which receives the copies. Gives the copies of the body's outputs.
std::vector<Value*> copy_nodes(const Graph& body, Node* node, std::unordered_map<const Value*, Value*>& mapping);

}  // namespace attune
