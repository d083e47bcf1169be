#include "ops/infer/function_call.h"

#include <fmt/format.h>

#include "graph/inline.h"
#include "ops/infer/contents.h"
#include "ops/infer/graph_inference.h"

namespace attune {
namespace {

constexpr int kMaxDepth = 32;

// Gives references to attributes of the function their values at the call; those without a value go.
void fill_attributes(const Graph& body, const Node& call, const Function& function) {
  const auto value_of = [&](const std::string& name) -> const Attribute* {
    if (const auto it = call.attributes().find(name); it != call.attributes().end()) return &it->second;
    const auto it = function.attribute_defaults.find(name);
    return it == function.attribute_defaults.end() ? nullptr : &it->second;
  };
  body.for_each_node([&](Node& node) {
    for (auto it = node.attributes().begin(); it != node.attributes().end();) {
      const auto* reference = std::get_if<AttributeReference>(&it->second);
      if (!reference) {
        ++it;
      } else if (const Attribute* value = value_of(reference->name)) {
        it->second = *value;
        ++it;
      } else {
        it = node.attributes().erase(it);
      }
    }
  });
}

std::optional<SymbolicTensor> copy(const SymbolicTensor* contents) {
  return contents ? std::optional(*contents) : std::nullopt;
}

}  // namespace

// The state of the inference while it is inside a function.
class CallScope {
 public:
  CallScope(Inference& inference, const Function& function, Graph& body) : inference_(inference), body_(body) {
    outer_opsets_ = std::exchange(inference_.opsets_, normalized_opsets(function.opset_imports));
    ++inference_.depth_;
  }
  // The body goes: nothing may be remembered under the addresses of its values.
  ~CallScope() {
    inference_.opsets_ = std::move(outer_opsets_);
    --inference_.depth_;
    for_each_value(body_, [&](Value& v) {
      inference_.contents_.erase(&v);
      inference_.constants_.erase(&v);
    });
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  int depth() const { return inference_.depth_; }

 private:
  Inference& inference_;
  Graph& body_;
  std::map<std::string, int64_t> outer_opsets_;
};

void infer_call(NodeInference& n, const Function& function) {
  const auto body = function.body->clone();
  forget_types(*body);
  if (n.input_count() > body->inputs().size() || n.output_count() > body->outputs().size())
    n.fail(fmt::format("{} inputs and {} outputs for a function of {} and {}", n.input_count(), n.output_count(),
                       body->inputs().size(), body->outputs().size()));
  fill_attributes(*body, n.node(), function);
  GraphInference graphs(n.inference());
  std::vector<std::pair<ValueType, std::optional<SymbolicTensor>>> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.emplace_back(n.type(i), copy(n.contents(i)));

  const CallScope scope(n.inference(), function, *body);
  if (scope.depth() > kMaxDepth) n.fail(fmt::format("calls nest deeper than {}", kMaxDepth));
  for (size_t i = 0; i < inputs.size(); ++i)
    graphs.assign(*body->inputs()[i], inputs[i].first, std::move(inputs[i].second));
  within([&] { return fmt::format("function '{}'", function.name); }, [&] { graphs.infer(*body); });
  for (size_t k = 0; k < n.output_count(); ++k) {
    n.set_type(k, body->outputs()[k]->type());
    if (const SymbolicTensor* c = n.inference().contents(body->outputs()[k])) n.set_contents(k, *c);
  }
}

}  // namespace attune
