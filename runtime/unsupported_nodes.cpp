#include "runtime/unsupported_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attune {
namespace {

constexpr size_t kMostNamed = 3;

struct Operator {
  std::string op;
  size_t count = 0;
  std::vector<std::string> nodes, reasons;  // different ones
};

std::string first(const std::vector<std::string>& items, size_t count, const char* separator) {
  std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), kMostNamed)),
                      separator));
  if (count > kMostNamed) text += fmt::format("{}and {} more", separator, count - kMostNamed);
  return text;
}

}  // namespace

std::string describe(const std::vector<UnsupportedNode>& nodes) {
  std::vector<Operator> operators;
  for (const UnsupportedNode& n : nodes) {
    auto it = std::find_if(operators.begin(), operators.end(), [&](const Operator& o) { return o.op == n.op; });
    if (it == operators.end()) it = operators.insert(it, {n.op, 0, {}, {}});
    ++it->count;
    it->nodes.push_back(n.node);
    if (std::find(it->reasons.begin(), it->reasons.end(), n.reason) == it->reasons.end())
      it->reasons.push_back(n.reason);
  }
  std::string text = fmt::format("{} node(s) can't be run:", nodes.size());
  for (const Operator& o : operators)
    text += fmt::format("\n  {} of {}: {}: {}", o.count, o.op, first(o.reasons, o.reasons.size(), "; "),
                        first(o.nodes, o.count, ", "));
  return text;
}

}  // namespace attune
