#include "convert/cache_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "convert/raise_opset.h"
#include "graph/error.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

// True if an attention reads input `index` as keys or values that are projected already.
bool reads_cache(const Node& n, size_t index) {
  if (!is_attention(n)) return false;
  if (index == kAttentionPastKey || index == kAttentionPastValue) return true;
  const Value* v = n.input(index);
  return (index == kAttentionKey || index == kAttentionValue) && v->tensor_type().rank() == 4;
}

class CacheStorage {
 public:
  CacheStorage(Model& model, DataType type) : graph_(*model.graph), type_(type) {}

  size_t run() {
    for (Value* v : graph_.inputs())
      if (v->element_type() == DataType::kFloat &&
          std::any_of(v->uses().begin(), v->uses().end(), [](const Use& u) { return reads_cache(*u.node, u.index); }))
        caches_.insert(v);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) store_output(i);
    for (Value* v : caches_) store_input(*v);
    return count_ + caches_.size();
  }

 private:
  // True if `v` is what an attention gives for the next step, and what it was given for this one (if anything) is
  // stored narrower.
  bool is_present(const Value& v) const {
    const Node* n = v.producer();
    if (!n || !is_attention(*n)) return false;
    const bool key = v.output_index() == kAttentionPresentKey;
    if (!key && v.output_index() != kAttentionPresentValue) return false;
    Value* past = n->input(key ? kAttentionPastKey : kAttentionPastValue);
    return !past || caches_.contains(past);
  }

  // A branch may give a cache back as it came, or an empty tensor in its place.
  bool may_stay(const Value& v) const {
    const auto& shape = v.tensor_type().shape;
    const bool empty = shape && std::any_of(shape->begin(), shape->end(), [](const Dim& d) { return d.is(0); });
    return caches_.contains(const_cast<Value*>(&v)) || v.constant() || empty;
  }

  Value* narrowed(Graph& graph, Value* v) const {
    Node* cast = graph.add_node("", "Cast", {v}, 1, {{"to", static_cast<int64_t>(type_)}});
    ValueType type = v->type();
    type.tensor.element = type_;
    cast->output()->set_type(std::move(type));
    return cast->output();
  }

  void store_output(size_t i) {
    Value* v = graph_.outputs()[i];
    if (v->element_type() != DataType::kFloat && v->element_type() != DataType::kUndefined) return;
    const std::string name(v->name());
    if (is_present(*v)) {
      v->set_name({});
      graph_.set_output(i, narrowed(graph_, v));
      graph_.outputs()[i]->set_name(name);
      ++count_;
      return;
    }
    if (!v->producer() || !v->producer()->is("If")) return;
    const auto branches = v->producer()->subgraphs();
    const size_t k = v->output_index();
    const auto given = [&](const Graph* branch) -> Value& { return *branch->outputs()[k]; };
    const bool some = std::any_of(branches.begin(), branches.end(), [&](Graph* b) { return is_present(given(b)); });
    const bool all = std::all_of(branches.begin(), branches.end(),
                                 [&](Graph* b) { return is_present(given(b)) || may_stay(given(b)); });
    if (!some || !all || !v->uses().empty()) return;
    for (Graph* branch : branches)
      if (!caches_.contains(&given(branch))) branch->set_output(k, narrowed(*branch, &given(branch)));
    ValueType type = v->type();
    type.tensor.element = type_;
    v->set_type(std::move(type));
    ++count_;
  }

  // Each graph that reads an input widens it for itself.
  void store_input(Value& v) const {
    const ValueType wide = v.type();
    std::map<Graph*, Value*> casts;
    const std::vector<Use> uses(v.uses().begin(), v.uses().end());
    ValueType narrow = wide;
    narrow.tensor.element = type_;
    v.set_type(std::move(narrow));
    for (const Use& u : uses) {
      if (u.node->is("Shape") || u.node->is("Size")) continue;
      Value*& cast = casts[u.node->graph()];
      if (!cast) {
        Node* n = u.node->graph()->insert_node(u.node, "", "Cast", {&v}, 1,
                                               {{"to", static_cast<int64_t>(wide.tensor.element)}});
        cast = n->output();
        cast->set_type(wide);
      }
      u.node->set_input(u.index, cast);
    }
  }

  Graph& graph_;
  DataType type_;
  std::set<Value*> caches_;  // inputs
  size_t count_ = 0;
};

}  // namespace

DataType cache_type_from_name(std::string_view name) {
  if (name == "float16") return DataType::kFloat16;
  if (name == "bfloat16") return DataType::kBFloat16;
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("type of keys and values: expected float16 or bfloat16, got '{}'", name));
}

size_t store_caches(Model& model, DataType type) {
  if (type == DataType::kBFloat16) raise_opset(model, 13);
  const size_t changed = CacheStorage(model, type).run();
  model.metadata[std::string(kCacheTypeKey)] = std::string(name(type));
  model.graph->sort();
  return changed;
}

}  // namespace attune
