#include "passes/comparisons.h"

#include <array>
#include <unordered_set>

#include "passes/node_facts.h"
#include "passes/uniform_value.h"

namespace attune {
namespace {

constexpr std::array kComparing = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
constexpr std::array kKeeping = {"Cast",   "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand",
                                 "Concat", "Slice",    "Flatten", "Transpose", "Split",   "Tile"};

void collect(const Value& value, std::vector<Use>& found, std::unordered_set<const Value*>& seen) {
  if (!seen.insert(&value).second) return;
  for (const Use& use : value.uses()) {
    if (is_one_of(*use.node, kComparing)) found.push_back(use);
    if (!is_one_of(*use.node, kKeeping) || (use.index != 0 && !use.node->is("Concat"))) continue;
    for (size_t i = 0; i < use.node->output_count(); ++i) {
      const Value* out = use.node->output(i);
      if (out && out->element_type() != DataType::kBool) collect(*out, found, seen);
    }
  }
}

}  // namespace

std::vector<Use> comparisons_of(const Value& value) {
  std::vector<Use> found;
  std::unordered_set<const Value*> seen;
  collect(value, found, seen);
  return found;
}

std::optional<double> compared_with(const Use& comparison) {
  const Value* other = comparison.node->input(1 - comparison.index);
  const Tensor* t = other ? other->constant() : nullptr;
  return t ? uniform_value(*t) : std::nullopt;
}

}  // namespace attune
