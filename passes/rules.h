// The fusion rules, one to a file, fuse_NAME.cpp; the passes apply them, and the report explains anchors by them.
#pragma once

#include "passes/pattern/rule.h"

namespace attune::rules {

pattern::Rule attention();
pattern::Rule additive_attention();
pattern::Rule attention_heads();         // of queries and the context
pattern::Rule attention_memory_heads();  // of keys and values
std::vector<pattern::Rule> qkv_projections();
pattern::Rule unsqueezed_layer();  // a layer of states (B, D) that become rows (B, 1, D) of queries

// A product with a constant matrix, of floats or of integers.
bool is_linear_layer(const Node& n);
// The linear layer that `v` is computed from, position by position or by moving elements: it may have been meant as a
// projection. Null if there is none.
const Node* linear_layer_behind(const Value* v, int depth = 0);

// Normalising rules: sums of products as MatMul.
std::vector<pattern::Rule> contraction_forms();
// Normalising rules: products with a column, and axes of size 1, as the attention rules expect them.
std::vector<pattern::Rule> row_forms();
// Normalising rules: copies that broadcasting makes needless.
std::vector<pattern::Rule> broadcast_forms();
// Normalising rules: a softmax that is written out.
std::vector<pattern::Rule> softmax_forms();
// Normalising rules: masks that are folded like scores, or multiplied.
std::vector<pattern::Rule> mask_forms();
// Normalising rules: scores plus those of positions.
std::vector<pattern::Rule> relative_score_forms();
// A normalising rule: weights that are transposed in front of the values.
pattern::Rule transposed_scores();
// Normalising rules: reshapes and transposes that together are one transpose.
std::vector<pattern::Rule> transpose_forms();
// Normalising rules: projections for several operands at once become one for each.
std::vector<pattern::Rule> projection_forms();
// Normalising rules: constant factors behind the split into heads.
std::vector<pattern::Rule> head_forms();
// Normalising rules: parts of the rows of projections become projections of parts.
std::vector<pattern::Rule> row_part_forms();

}  // namespace attune::rules
