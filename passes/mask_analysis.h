// What a mask tensor means: a symbolic evaluation of the computation that exporters build masks with.
//
// A mask of rank r is followed backwards from element (@0, ..., @r-1) through Trilu, comparisons of Range, Expand,
// Slice, Where, ScatterND over full ranges, products with a filler ... Its value then is a decision tree: inner nodes
// ask whether an affine expression of indices and sizes is >= 0, or whether an element of an input mask is not 0;
// leaves are numbers. A bool or integer input of the model that isn't used as indices is taken for a mask of 0 and 1.
#pragma once

#include "ops/infer/infer.h"
#include "passes/mask_tree.h"

namespace attune {

// The symbol of index `axis` in affine expressions.
Dim index_symbol(size_t axis);

// The element (@0, ..., @rank-1) of `mask`; null where some step can't be followed.
MaskTreePtr analyze_mask(const Value& mask, const Inference& inference);

}  // namespace attune
