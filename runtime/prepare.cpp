#include "runtime/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "graph/inline.h"
#include "graph/io/file_bytes.h"
#include "ops/evaluate.h"
#include "ops/infer/infer.h"
#include "ops/op.h"
#include "ops/schema/expand.h"
#include "ops/support/attention_parts.h"
#include "ops/support/stored_weights.h"
#include "runtime/feed_forward.h"
#include "runtime/narrow_caches.h"
#include "runtime/widen.h"

namespace attune {
namespace {

std::vector<Node*> all_nodes(const Graph& graph) {
  std::vector<Node*> nodes;
  graph.for_each_node([&](Node& n) { nodes.push_back(&n); });
  return nodes;
}

// The tensors of a node's inputs if each is known now; undefined where one is left out.
std::optional<std::vector<Datum>> constant_inputs(const Node& node) {
  std::vector<Datum> inputs;
  for (const Value* v : node.inputs()) {
    const Tensor* t = v ? v->constant() : nullptr;
    if (v && !t) return std::nullopt;
    inputs.push_back(t ? Datum(*t) : Datum());
  }
  return inputs;
}

}  // namespace

PreparedGraph::PreparedGraph(const Model& model, const std::set<std::string>& fixed_inputs, bool rounded_activations)
    : graph_(model.graph->clone()), model_opsets_(model.opset_imports) {
  while (inline_model_functions(model) || expand_schema_functions()) {
  }
  fold(*graph_);
  graph_->erase_unused();
  widen();
  narrow_caches(*graph_);
  if (const auto it = model.metadata.find(std::string(kCacheTypeKey)); it != model.metadata.end())
    memory_type_ = data_type_from_name(it->second);
  std::unordered_set<const Value*> fixed;
  for (const Value* v : graph_->inputs())
    if (fixed_inputs.contains(std::string(v->name()))) fixed.insert(v);
  split_attentions(*graph_, std::move(fixed));
  if (rounded_activations) join_products();
}

const OpsetImports& PreparedGraph::opsets(const Node& node) const {
  const auto it = origins_.find(&node);
  return it == origins_.end() ? model_opsets_ : *it->second->opsets;
}

int64_t PreparedGraph::opset(const Node& node) const {
  const OpsetImports& imports = opsets(node);
  const auto it = imports.find(node.domain());
  return it == imports.end() ? 0 : it->second;
}

bool PreparedGraph::inline_model_functions(const Model& model) {
  const auto inlined = inline_calls(*graph_, model, [&](Node* call, const Function& f) {
    return replace(call, f, fmt::format("{}.{}.{}", f.domain, f.name, f.overload));
  });
  return inlined > 0;
}

bool PreparedGraph::expand_schema_functions() {
  std::vector<Node*> missing;
  for (Node* node : all_nodes(*graph_))
    if (!find_op(node->domain(), node->type(), opset(*node))) missing.push_back(node);
  if (missing.empty()) return false;
  try {
    const Inference types(*graph_, model_opsets_);  // bodies may depend on types
  } catch (const Error&) {
    // What contradicts is reported when it runs.
  }
  // All before any is replaced: a body may depend on the nodes around.
  std::vector<std::pair<Node*, Function>> found;
  for (Node* node : missing)
    if (auto body = schema_function(*node, opsets(*node))) found.emplace_back(node, std::move(*body));
  for (const auto& [node, body] : found) replace(node, body, fmt::format("{}.{}", node->domain(), node->type()));
  return !found.empty();
}

std::vector<Node*> PreparedGraph::replace(Node* call, const Function& function, const std::string& key) {
  const auto it = origins_.find(call);
  const std::shared_ptr<const Origin> outer = it == origins_.end() ? nullptr : it->second;
  for (const Origin* o = outer.get(); o; o = o->outer.get())
    if (o->function == key)
      throw Error(Error::Kind::kInvalidModel, fmt::format("{}: function '{}' calls itself", call->label(), key));
  auto imports = std::make_shared<OpsetImports>(function.opset_imports);
  imports->insert(model_opsets_.begin(), model_opsets_.end());
  const auto origin = std::make_shared<const Origin>(Origin{key, std::move(imports), outer});
  const auto forget = [&](Node& n) { origins_.erase(&n); };
  for (Graph* body : call->subgraphs()) body->for_each_node(forget);
  forget(*call);
  std::vector<Node*> nodes = inline_function(call, function);
  for (Node* node : nodes) {
    origins_[node] = origin;
    for (Graph* body : node->subgraphs()) body->for_each_node([&](Node& inner) { origins_[&inner] = origin; });
  }
  return nodes;
}

void PreparedGraph::widen() {
  if (!has_halves(*graph_)) return;
  try {
    const Inference types(*graph_, model_opsets_);
  } catch (const Error&) {
    return;  // what contradicts is reported when it runs
  }
  constexpr int64_t kOpset = 24;
  const auto origin = std::make_shared<const Origin>(
      Origin{{}, std::make_shared<const OpsetImports>(OpsetImports{{"", kOpset}}), nullptr});
  widen_halves(*graph_, HalfMatrices::kAsStored, HalfCaches::kAsStored, [&](Node& cast) { origins_[&cast] = origin; });
}

void PreparedGraph::join_products() {
  const auto origin = std::make_shared<const Origin>(
      Origin{{}, std::make_shared<const OpsetImports>(OpsetImports{{"ai.attune.runtime", 1}}), nullptr});
  join_feed_forward(*graph_, [&](Node& first, Node& second, Node& both) {
    origins_.erase(&first);
    origins_.erase(&second);
    origins_[&both] = origin;
  });
}

// `fixed`: values that stay the same over many runs of the graph; grows by what depends on them alone.
void PreparedGraph::split_attentions(Graph& graph, std::unordered_set<const Value*> fixed) {
  const bool iterated = graph.parent() && !graph.inputs().empty();
  const auto stays = [&](const Value* v) {
    return !v || v->constant() || fixed.contains(v) || (iterated && v->graph() != &graph);
  };
  for (Node* node : graph.topological_order()) {
    if (node->is("Attention", "ai.attune") && split_by_fixed_inputs(graph, *node, stays))
      narrow_memory(graph, *node, memory_type_);
    for (Graph* body : node->subgraphs()) split_attentions(*body, fixed);
    const OpDef* op = find_op(node->domain(), node->type(), opset(*node));
    if (!op || !op->deterministic || !node->subgraphs().empty()) continue;
    if (!std::all_of(node->inputs().begin(), node->inputs().end(), stays)) continue;
    for (size_t i = 0; i < node->output_count(); ++i) fixed.insert(node->output(i));
  }
}

void PreparedGraph::fold(Graph& graph) {
  for (Node* node : graph.topological_order()) {
    for (Graph* body : node->subgraphs()) fold(*body);
    fold(*node);
  }
}

void PreparedGraph::fold(Node& node) {
  if (!node.subgraphs().empty()) return;
  // Kernels that take weights in their narrow storage look for what widens them.
  const bool widens = widens_stored_matrix(node);
  const auto taken = [](const Use& u) { return takes_stored_matrix(*u.node, u.index); };
  if (widens && std::all_of(node.output()->uses().begin(), node.output()->uses().end(), taken)) return;
  if (node.output_count() == 1 && node.output() && node.output()->constant()) return;
  const OpDef* op = find_op(node.domain(), node.type(), opset(node));
  if (!op || !op->deterministic) return;
  auto inputs = constant_inputs(node);
  if (!inputs) return;
  std::vector<Datum> outputs;
  try {
    outputs = evaluate(node, opset(node), std::move(*inputs));
  } catch (const Error&) {
    return;  // it may lie in a branch that never runs
  }
  for (const Value* v : node.inputs())
    if (v && v->constant()) release_mapped_pages(v->constant()->raw(), v->constant()->bytes());
  const auto is_tensor = [](const Datum& d) { return d.kind() == Datum::Kind::kTensor; };
  for (size_t i = 0; i < node.output_count(); ++i)
    if (node.output(i) && (i >= outputs.size() || !is_tensor(outputs[i]))) return;
  for (size_t i = 0; i < node.output_count(); ++i) {
    Value* from = node.output(i);
    if (!from) continue;
    Value* folded = node.graph()->add_constant(outputs[i].tensor());
    const std::vector<Use> uses(from->uses().begin(), from->uses().end());
    for (const Use& u : uses)
      if (widens && !taken(u)) u.node->set_input(u.index, folded);
    if (!widens) node.graph()->replace_all_uses(from, folded);
  }
}

}  // namespace attune
