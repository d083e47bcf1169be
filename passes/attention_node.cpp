#include "passes/attention_node.h"

#include <algorithm>
#include <map>

namespace attune {

using pattern::Builder;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

AttentionParts::AttentionParts(const Node& node) : attributes(node.attributes()) {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = node.input(i);
  no_key_ = !inputs[kAttentionKey];
  no_value_ = !inputs[kAttentionValue];
  if (no_key_) inputs[kAttentionKey] = inputs[kAttentionQuery];
  if (no_value_) inputs[kAttentionValue] = inputs[kAttentionKey];
}

Node* AttentionParts::build(Builder& builder) const {
  std::vector<Value*> given{inputs.begin(), inputs.end()};
  if (no_value_ && given[kAttentionValue] == given[kAttentionKey]) given[kAttentionValue] = nullptr;
  if (no_key_ && given[kAttentionKey] == given[kAttentionQuery]) given[kAttentionKey] = nullptr;
  return builder.node(std::string(kAttuneDomain), "Attention", std::move(given), kAttentionOutputs, attributes);
}

bool is_used(const Node& node, size_t i) {
  const Value* v = node.output(i);
  return v && (!v->uses().empty() || v->is_graph_output());
}

void carry_outputs(const Node& before, const Node& now, Outcome& outcome) {
  for (size_t i = kAttentionContext + 1; i < kAttentionOutputs; ++i)
    if (is_used(before, i)) outcome.also(before.output(i), now.output(i));
}

Pat attention_of(Pat query, Pat key, Pat value) {
  return Op("Attention", "attention")
      .domain(std::string(kAttuneDomain))
      .further_inputs()
      .replaced()(std::move(query), std::move(key), std::move(value));
}

namespace {

// Whether callers may choose it: no size in it was merely not inferred.
bool is_size_of_inputs(const Dim& size) {
  const auto symbols = size.symbols();
  return std::none_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with('?'); });
}

// Whether two expressions of the same names are one number for some sizes.
bool agree_somewhere(const Dim& a, const Dim& b) {
  for (const int64_t size : {2, 3, 5}) {
    std::map<std::string, int64_t, std::less<>> sizes;
    for (const std::string& name : a.symbols()) sizes.emplace(name, size);
    const auto x = a.evaluate(sizes), y = b.evaluate(sizes);
    if (!x || !y || *x == *y) return true;
  }
  return false;
}

}  // namespace

bool may_be_equal(const Dim& a, const Dim& b) {
  if (!a.known() || !b.known() || a == b) return true;
  if (!a.constant() && !b.constant()) return a.symbols() != b.symbols() || agree_somewhere(a, b);
  const Dim &number = a.constant() ? a : b, &size = a.constant() ? b : a;
  return !number.is(1) && !is_size_of_inputs(size);
}

}  // namespace attune
