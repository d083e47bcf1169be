// Operators of other domains in standard ones, as functions to inline (see graph/inline.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/error.h"
#include "ops/schema/body_builder.h"

namespace attune {

// Throws Error(kUnsupported): the node asks for what its form doesn't give.
[[noreturn]] inline void refuse(std::string reason) { throw Error(Error::Kind::kUnsupported, std::move(reason)); }

// Has blocked DequantizeLinear and 4-bit integers.
inline constexpr int64_t kFormOpset = 21;

// Builds the body that stands for `node`, with an input for each of the node's.
class NodeForm : public BodyBuilder {
 public:
  NodeForm(const Node& node, Graph& body) : BodyBuilder(body, kFormOpset), node_(node) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* v = node.input(i);
      inputs_.push_back(body.add_input(fmt::format("input{}", i), v ? v->type() : ValueType()));
    }
  }

  const Node& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  // The body's input i; null where the node leaves it out.
  Value* in(size_t i) const { return node_.input(i) ? inputs_.at(i) : nullptr; }
  // The node's own attributes of these names.
  Attributes attributes(std::initializer_list<const char*> names) const {
    Attributes found;
    for (const char* name : names)
      if (const auto it = node_.attributes().find(name); it != node_.attributes().end()) found.insert(*it);
    return found;
  }

 private:
  const Node& node_;
  std::vector<Value*> inputs_;
};

// What builds the one output of an operator.
template <class Builder>
struct FormOf {
  std::string_view type;
  Value* (*build)(Builder&);
};

// The function of the form among `forms` that has the node's type; nothing if there is none.
template <class Builder, class Forms>
std::optional<Function> build_form(const Node& node, const Forms& forms) {
  const auto form = std::find_if(forms.begin(), forms.end(), [&](const auto& f) { return f.type == node.type(); });
  if (form == forms.end()) return std::nullopt;
  Function f;
  f.domain = "ai.attune.form";
  f.name = node.type();
  f.opset_imports = {{"", kFormOpset}, {"ai.attune", 1}};
  f.body = std::make_shared<Graph>();
  Builder builder(node, *f.body);
  f.body->add_output(form->build(builder));
  f.body->erase_unused();
  return f;
}

}  // namespace attune
