// The evaluation behind analyze_mask(): one element of a tensor at a time. Internal to mask_analysis.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/mask_analysis.h"

namespace attune {

// The value of one element: an integer expression of indices and sizes, or a tree. Neither: not understood.
struct MaskElement {
  Dim affine;
  MaskTreePtr tree;
  bool understood() const { return affine.known() || tree; }
};

using IndexSizes = std::map<std::string, Dim, std::less<>>;  // of index symbols

// Lengths and positions may be negative, which sizes are not.
bool has_elements(const Dim& e);

class MaskAnalyzer {
 public:
  MaskAnalyzer(const Inference& inference, IndexSizes sizes) : inference_(inference), sizes_(std::move(sizes)) {}

  // `at` has an index for each axis of `v`.
  MaskElement element(const Value* v, const Dims& at, int depth = 0);
  const std::map<std::string, IntegerElement, std::less<>>& elements() const { return elements_; }
  static MaskTreePtr tree_of(const MaskElement& e);

 private:
  // 1 where the integer expression is >= 0, else 0.
  MaskTreePtr not_negative(const Dim& e) const;
  static Dim affine_of(const MaskElement& e);
  static MaskElement leaf(double value);
  MaskElement follow(const Value& v, const Dims& at, int depth);
  // A scalar or an element of a small tensor that inference knows as an expression.
  MaskElement small_contents(const Value& v, const Dims& at) const;
  // All elements the same, a triangle or band of a matrix, or integers that count along the last axis.
  MaskElement constant(const Tensor& t, const Dims& at) const;
  // True if the integers of `v` select rows of something: ids, not a mask.
  static bool selects_rows(const Value& v, int depth = 0);
  // True if a comparison may tell 1 from another number that isn't 0: ids or segments, and the comparison is the mask.
  static bool tells_numbers_apart(const Value& v);
  static bool all_known(const Dims& at);

  // An element of a mask of 0 and 1, or a length or position.
  MaskElement input(const Value& v, const Dims& at);
  // An element that can't be followed: a condition, or a length or position.
  MaskElement opaque(const Value& v, const Dims& at);

  // An element of a node's result, by its operator.
  MaskElement node(const Node& n, const Dims& at, int depth);
  // The element of input `i` that broadcasting combines into the result's.
  MaskElement operand(const Node& n, size_t i, const Dims& at, int depth);

  // Elements of other places: mask_movement.cpp.
  // Shapes that differ in axes of size 1 only.
  MaskElement reshaped(const Node& n, const Dims& at, int depth);
  // Copies along axes of size 1.
  MaskElement transposed(const Node& n, const Dims& at, int depth);
  MaskElement sliced(const Node& n, const Dims& at, int depth);
  MaskElement concatenated(const Node& n, const Dims& at, int depth);
  static Dim one_expression(const std::vector<std::pair<Dim, MaskElement>>& parts, const Dim& index);
  MaskElement accumulated(const Node& n, const Dims& at, int depth);
  // Updates for every element, at the element's own index.
  MaskElement scattered(const Node& n, const Dims& at, int depth);
  MaskElement gathered_nd(const Node& n, const Dims& at, int depth);
  MaskElement gathered(const Node& n, const Dims& at, int depth);

  // Computed elements: mask_arithmetic.cpp.
  MaskElement mapped(const Node& n, const Dims& at, int depth,
                     const std::function<double(const std::vector<double>&)>& f);
  MaskElement cast(const Node& n, const Dims& at, int depth);
  // Numbers as the type has them; not understood where an integer type has no such.
  static MaskElement typed(const MaskTreePtr& tree, DataType type);
  MaskElement range(const Node& n, const Dims& at, int depth);
  MaskElement triangle(const Node& n, const Dims& at, int depth);
  MaskElement chosen(const Node& n, const Dims& at, int depth);
  MaskElement elementwise(const Node& n, const Dims& at, int depth);
  static std::function<double(double, double)> operation(const std::string& type);

  const Inference& inference_;
  IndexSizes sizes_;
  std::map<std::pair<const Value*, std::string>, MaskElement> known_;
  std::map<std::string, IntegerElement, std::less<>> elements_;
};

}  // namespace attune
