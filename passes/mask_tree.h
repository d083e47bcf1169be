// Decision trees over questions about an element of a mask.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune {

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
  // The values of its leaves.
  static std::vector<double> leaves(const MaskTreePtr& tree);
  // The leaf that answers lead to (`answers` in the order of atoms()).
  static double evaluate(const MaskTreePtr& tree, const std::map<std::string, bool>& answers);
};

MaskTreePtr make_leaf(double value);
// `yes` alone if both branches are equal.
MaskTreePtr make_node(const MaskAtom& atom, MaskTreePtr yes, MaskTreePtr no);
// The number of inner nodes and leaves.
size_t size_of(const MaskTreePtr& tree);
// f over the leaves of several trees; atoms stay in the order of their keys.
MaskTreePtr combine(const std::vector<MaskTreePtr>& trees, const std::function<double(const std::vector<double>&)>& f);

}  // namespace attune
