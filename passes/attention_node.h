// The node that the attention rules build and extend: ai.attune::Attention.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"
#include "passes/pattern/rule.h"

namespace attune {

inline constexpr std::string_view kAttuneDomain = "ai.attune";

// The parts of an Attention node, to be changed and built anew. Keys that are left out are the query's states, and
// values that are left out those of the keys, until one is changed without the other.
struct AttentionParts {
  AttentionParts() = default;
  explicit AttentionParts(const Node& node);

  std::array<Value*, kAttentionInputs> inputs{};
  Attributes attributes;

  // Adds the node to the patch, with all outputs, and imports the domain.
  Node* build(pattern::Builder& builder) const;

 private:
  bool no_key_ = false, no_value_ = false;
};

// True if anybody reads output `i` of `node`.
bool is_used(const Node& node, size_t i);
// Gives users of the outputs of `before` those of `now`, except the context.
void carry_outputs(const Node& before, const Node& now, pattern::Outcome& outcome);
// A pattern for the node's context, with any further inputs. The rule has to carry the other outputs.
pattern::Pat attention_of(pattern::Pat query, pattern::Pat key, pattern::Pat value);

// True unless the two sizes are known to differ, or may: where one is a number and the other a size that callers
// choose, which may be 1 and then is broadcast. Two such sizes may be one under two names; two expressions of the same
// names have to agree for small sizes.
bool may_be_equal(const Dim& a, const Dim& b);

}  // namespace attune
