// What a mask tensor means: a symbolic evaluation of the computation that exporters build masks with.
//
// A mask of rank r is followed backwards from element (@0, ..., @r-1) through Trilu, comparisons of Range, Expand,
// Slice, Where, ScatterND over full ranges, products with a filler ... Its value then is a decision tree: inner nodes
// ask whether an affine expression of indices and sizes is >= 0, or whether an element of an input mask is not 0;
// leaves are numbers. A bool or integer input of the model that isn't used as indices is taken for a mask of 0 and 1.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ops/infer/infer.h"

namespace attune {

// The symbol of index `axis` in affine expressions.
Dim index_symbol(size_t axis);

// A question about one element.
struct MaskAtom {
  const Value* input = nullptr;  // if set: is input[indices] not 0?
  Dims indices;
  Dim expression;  // else: is it >= 0?
  std::string key() const;
};

class MaskTree;
using MaskTreePtr = std::shared_ptr<const MaskTree>;

// A leaf, or an atom with two branches. Atoms are in one order along every path.
class MaskTree {
 public:
  double leaf = 0;
  std::optional<MaskAtom> atom;
  MaskTreePtr yes, no;

  // The distinct atoms, in order.
  static std::vector<MaskAtom> atoms(const MaskTreePtr& tree);
  // The leaf that answers lead to (`answers` in the order of atoms()).
  static double evaluate(const MaskTreePtr& tree, const std::map<std::string, bool>& answers);
};

// The element (@0, ..., @rank-1) of `mask`; null where some step can't be followed.
MaskTreePtr analyze_mask(const Value& mask, const Inference& inference);

}  // namespace attune
