// Matching a pattern against a graph, and why it doesn't match.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/pattern/pattern.h"

namespace attune::pattern {

// Where in a pattern a match stopped, at which value, and why, in words.
struct Miss {
  size_t progress = 0;                // twice the nodes that had matched, and one for a node of the right type
  size_t places = 0;                  // places of the pattern that had been visited, to tell misses of equal progress
  std::string path;                   // "MatMul[0].Softmax[0].Add"
  const Value* value = nullptr;       // null: an input that is left out
  std::vector<std::string> expected;  // alternatives at that place; empty where `found` says it all
  std::string found;
  std::string reason() const;  // "expected Mul or Div, found Clip"
};

// What a rule's rewrite gives: values with their replacements, or a refusal.
struct Outcome {
  Outcome(Value* root) : root(root) {}  // NOLINT(google-explicit-constructor): `return b.op(...)`
  static Outcome refused(std::string part, std::string reason) {
    Outcome o(nullptr);
    o.part = std::move(part);
    o.reason = std::move(reason);
    return o;
  }
  Outcome& also(Value* from, Value* to) {
    others.emplace_back(from, to);
    return *this;
  }
  Outcome& detail(std::string text) {
    details.push_back(std::move(text));
    return *this;
  }

  Value* root;                                    // takes the place of the pattern's root; null: refused
  std::vector<std::pair<Value*, Value*>> others;  // more values and what takes their place
  std::vector<std::string> details;               // for the report
  std::string part, reason;                       // of a refusal
};

class Match {
 public:
  // The value captured as `name`; null if the alternative that has it wasn't taken, or it is a left-out input.
  Value* operator[](std::string_view name) const;
  // The node of the Op captured as `name`; null likewise.
  Node* node(std::string_view name) const;
  // The alternative taken of one_of(name). Throws Error(kInternal) if there is none.
  size_t choice(std::string_view name) const;
  // The number captured by scalar(name).
  std::optional<double> number(std::string_view name) const;
  Value* root() const { return root_; }
  const std::vector<Node*>& nodes() const { return nodes_; }
  const Inference& inference() const { return *inference_; }

  Outcome refuse(std::string part, std::string reason) const {
    return Outcome::refused(std::move(part), std::move(reason));
  }

 private:
  friend class Matcher;
  struct Binding {
    const PatNode* pat;
    Value* value;
  };
  Pat pattern_;  // keeps what bindings_ and choices_ point to
  std::vector<Binding> bindings_;
  std::vector<std::pair<const PatNode*, size_t>> choices_;
  std::vector<Node*> nodes_;         // of Ops, in the order they were matched
  std::vector<OutsideUse> outside_;  // of each node
  Value* root_ = nullptr;
  const Inference* inference_ = nullptr;
};

// Matches `pattern` with `root` as its result. `miss`, if given, is replaced when this attempt came further than it.
std::optional<Match> match(const Pat& pattern, Value* root, const Inference& inference, Miss* miss = nullptr);

}  // namespace attune::pattern
