#include "ops/op.h"

#include <algorithm>
#include <tuple>

namespace attune {

std::vector<OpDef> collect_ops();  // op_table.cpp, written by CMake

namespace {

auto key(const OpDef& op) { return std::tuple(op.domain, op.type, op.since_version); }

const std::vector<OpDef>& table() {
  static const std::vector<OpDef> ops = [] {
    auto all = collect_ops();
    std::sort(all.begin(), all.end(), [](const OpDef& a, const OpDef& b) { return key(a) < key(b); });
    return all;
  }();
  return ops;
}

}  // namespace

const OpDef* find_op(std::string_view domain, std::string_view type, int64_t version) {
  if (domain == "ai.onnx") domain = "";
  const auto& ops = table();
  const auto after =
      std::upper_bound(ops.begin(), ops.end(), std::tuple(domain, type, version), [](const auto& k, const OpDef& op) {
        return k < std::tuple<std::string_view, std::string_view, int64_t>(op.domain, op.type, op.since_version);
      });
  if (after == ops.begin()) return nullptr;
  const OpDef& op = *std::prev(after);
  return op.domain == domain && op.type == type ? &op : nullptr;
}

std::span<const OpDef> all_ops() { return table(); }

bool is_commutative(std::string_view domain, std::string_view type) {
  return std::any_of(table().begin(), table().end(),
                     [&](const OpDef& op) { return op.domain == domain && op.type == type && op.commutative; });
}

}  // namespace attune
