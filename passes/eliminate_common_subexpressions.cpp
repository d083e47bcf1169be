#include <fmt/format.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "ops/op.h"
#include "passes/passes.h"

namespace attune {
namespace {

constexpr size_t kMaxComparedBytes = 4096;  // constants above are weights: exporters share them already

void append_raw(std::string& key, const Tensor& t) {
  key += fmt::format("{}{}:", name(t.type()), t.shape().to_string());
  if (t.type() == DataType::kString) {
    for (const std::string& s : t.strings()) key += fmt::format("{}:{}", s.size(), s);
    return;
  }
  const Tensor dense = t.to_contiguous();
  key.append(reinterpret_cast<const char*>(dense.raw()), dense.bytes());
}

// A text that is equal for attributes that are equal; false if it can't be told (a graph, a large tensor).
bool append_attribute(std::string& key, const Attribute& attribute) {
  key += fmt::format("{}:", attribute.index());
  if (const auto* i = std::get_if<int64_t>(&attribute)) {
    key += std::to_string(*i);
  } else if (const auto* f = std::get_if<float>(&attribute)) {
    key.append(reinterpret_cast<const char*>(f), sizeof *f);
  } else if (const auto* s = std::get_if<std::string>(&attribute)) {
    key += fmt::format("{}:{}", s->size(), *s);
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&attribute)) {
    key += fmt::format("{}", fmt::join(*is, ","));
  } else if (const auto* fs = std::get_if<std::vector<float>>(&attribute)) {
    key.append(reinterpret_cast<const char*>(fs->data()), fs->size() * sizeof(float));
  } else if (const auto* t = std::get_if<Tensor>(&attribute)) {
    if (t->bytes() > kMaxComparedBytes) return false;
    append_raw(key, *t);
  } else {
    return false;
  }
  key += ';';
  return true;
}

std::optional<std::string> key_of(const Node& n, int64_t opset) {
  const OpDef* op = find_op(n.domain(), n.type(), opset);
  if (!op || !op->deterministic) return std::nullopt;
  std::string key = fmt::format("{}.{}.{}|", n.domain(), n.type(), n.output_count());
  for (const auto& [name, attribute] : n.attributes()) {
    key += name + "=";
    if (!append_attribute(key, attribute)) return std::nullopt;
  }
  for (const Value* v : n.inputs()) key += fmt::format("|{}", static_cast<const void*>(v));
  return key;
}

class Merger {
 public:
  explicit Merger(const Model& model) : model_(model) {}

  size_t run(Graph& graph) {
    const size_t scope = log_.size();
    merge_constants(graph);
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) run(*body);
      merge(*n);
    }
    while (log_.size() > scope) {  // what is defined in here isn't visible outside
      nodes_.erase(log_.back());
      constants_.erase(log_.back());
      log_.pop_back();
    }
    return merged_;
  }

 private:
  void merge_constants(Graph& graph) {
    std::vector<Value*> values;
    for (const auto& v : graph.constants()) values.push_back(v.get());
    for (Value* v : values) {
      const Tensor& t = *v->constant();
      if (t.bytes() > kMaxComparedBytes || v->is_graph_output()) continue;
      std::string key;
      append_raw(key, t);
      const auto [it, added] = constants_.emplace(key, v);
      if (added) {
        log_.push_back(std::move(key));
      } else {
        graph.replace_all_uses(v, it->second);
        graph.erase_constant(v);
        ++merged_;
      }
    }
  }

  void merge(Node& n) {
    auto key = key_of(n, model_.opset(n.domain()));
    if (!key) return;
    const auto [it, added] = nodes_.emplace(*key, &n);
    if (added) {
      log_.push_back(std::move(*key));
      return;
    }
    Node* earlier = it->second;
    for (size_t i = 0; i < n.output_count(); ++i) {
      if (!n.output(i)) continue;
      if (!earlier->output(i) ||
          (n.output(i)->is_graph_output() && (earlier->output(i)->is_graph_output() || earlier->graph() != n.graph())))
        return;
    }
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) n.graph()->replace_all_uses(n.output(i), earlier->output(i));
    n.graph()->erase(&n);
    ++merged_;
  }

  const Model& model_;
  std::unordered_map<std::string, Node*> nodes_;
  std::unordered_map<std::string, Value*> constants_;
  std::vector<std::string> log_;
  size_t merged_ = 0;
};

}  // namespace

size_t eliminate_common_subexpressions(PassContext& context) { return Merger(context.model).run(*context.model.graph); }

}  // namespace attune
