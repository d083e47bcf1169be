#include "convert/target.h"

#include <fmt/format.h>

#include <map>

#include "convert/raise_opset.h"
#include "graph/error.h"
#include "graph/inline.h"
#include "graph/io/writer.h"
#include "ops/infer/infer.h"
#include "ops/portable.h"
#include "ops/schema/schemas.h"
#include "passes/attention_conversions.h"

namespace attune {
namespace {

std::string attribute_text(const Attribute& a) {
  if (const auto* i = std::get_if<int64_t>(&a)) return std::to_string(*i);
  if (const auto* f = std::get_if<float>(&a)) return fmt::format("{:a}", *f);
  if (const auto* s = std::get_if<std::string>(&a)) return *s;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a)) return fmt::format("{}", fmt::join(*v, ","));
  throw Error(Error::Kind::kInternal, "an attribute of ai.attune of another kind");
}

// What the body of a node depends on: attributes, which inputs and outputs there are, their types and ranks.
std::string configuration(const Node& node) {
  std::string key = node.type();
  for (const auto& [name, value] : node.attributes()) key += fmt::format("|{}={}", name, attribute_text(value));
  for (const Value* v : node.inputs())
    key += v ? fmt::format("|{}{}", name(v->element_type()), v->tensor_type().rank()) : "|-";
  for (size_t i = 0; i < node.output_count(); ++i) key += node.output(i) ? "|o" : "|-";
  return key;
}

void embed_functions(Model& model) {
  const int64_t opset = model.opset();
  std::map<std::string, std::string> names;  // by configuration
  std::map<std::string, int> count;          // of functions of an operator
  for (Node* node : attune_nodes(model)) {
    const std::string key = configuration(*node);
    auto it = names.find(key);
    if (it == names.end()) {
      Function f = within([&] { return node->label(); }, [&] { return function_body(*node, opset); });
      const int n = ++count[node->type()];
      f.domain = kAttuneDomain;
      f.name = n == 1 ? node->type() : fmt::format("{}_{}", node->type(), n);
      forget_types(*f.body);
      // The body has them written in; the call keeps them, so that attune reads its node back.
      for (const auto& [attribute, value] : node->attributes()) f.attributes.push_back(attribute);
      it = names.emplace(key, f.name).first;
      model.functions.push_back(std::move(f));
    }
    if (it->second != node->type()) retype(node, it->second);
  }
}

// No operator of ai.attune is left.
void lower(Model& model) {
  Report report;
  const PassOptions options;
  PassContext context{model, report, options};
  lower_attention(context);
}

}  // namespace

Target target_from_name(std::string_view name) {
  if (name == "attune") return Target::kAttune;
  if (name == "portable") return Target::kPortable;
  if (name == "onnx") return Target::kOnnx;
  throw Error(Error::Kind::kInvalidArgument, fmt::format("target '{}': expected attune, portable or onnx", name));
}

void apply_target(Model& model, Target target) {
  if (target == Target::kAttune || attune_nodes(model).empty()) return;
  constexpr int64_t kOldestOfBodies = 13;
  if (model.opset() < kOldestOfBodies) {
    { const Inference ranks(model); }
    raise_opset(model, kOldestOfBodies);
  }
  if (target == Target::kPortable) {
    const Inference inference(model);
    embed_functions(model);
  } else {
    lower(model);
  }
}

}  // namespace attune
