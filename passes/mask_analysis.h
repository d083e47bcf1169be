// What a mask tensor means: a symbolic evaluation of the computation that exporters build masks with.
//
// A mask of rank r is followed backwards from element (@0, ..., @r-1) through Trilu, comparisons of Range, Expand,
// Slice, Where, ScatterND over full ranges, products with a filler ... Its value then is a decision tree: inner nodes
// ask whether an affine expression of indices, sizes and elements of integer tensors (lengths, positions) is >= 0, or
// whether an element of an input mask is not 0; leaves are numbers. A bool or integer input of the model that isn't
// used as indices is taken for a mask of 0 and 1. Where a step can't be followed, a bool tensor is taken for such a
// mask, too, and integers of rank 0 or 1 for lengths or positions.
#pragma once

#include "ops/infer/infer.h"
#include "passes/mask_tree.h"

namespace attune {

// The symbol of index `axis` in affine expressions.
Dim index_symbol(size_t axis);

// An element of an integer tensor, which stands in expressions as a symbol.
struct IntegerElement {
  const Value* tensor;
  Dims indices;
};

struct MaskMeaning {
  MaskTreePtr tree;                                             // null where some step can't be followed
  std::map<std::string, IntegerElement, std::less<>> elements;  // by their symbols
};

// The element (@0, ..., @rank-1) of `mask`.
MaskMeaning analyze_mask(const Value& mask, const Inference& inference);
// The element (@0, ..., @rank-1) of an integer tensor of known rank, if it is an affine expression of indices and
// sizes; else unknown.
Dim analyze_integers(const Value& value, const Inference& inference);

}  // namespace attune
