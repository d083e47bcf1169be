#include "passes/node_facts.h"

namespace attune {

std::optional<std::vector<int64_t>> axes_of(const Node& n, const Inference& inference) {
  std::vector<int64_t> axes = n.attr_ints("axes");
  if (n.input(1)) axes = inference.constant_integers(n.input(1)).value_or(std::vector<int64_t>{});
  const int rank = (n.is("Squeeze") ? n.input(0) : n.output())->tensor_type().rank();
  if (axes.empty() || rank < 0) return std::nullopt;
  for (int64_t& axis : axes) axis = from_front(axis, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool splits_last_axis(const Value* whole, const Value* split) {
  const Dims *from = dims(whole), *to = dims(split);
  return from && to && !from->empty() &&
         std::mismatch(from->begin(), from->end() - 1, to->begin(), to->end()).first == from->end() - 1;
}

}  // namespace attune
