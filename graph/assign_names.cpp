#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"

namespace attune {
namespace {

// Gives names within one model: what is unnamed, or named as another value of its graph or one that its graph
// takes from outside, gets a new one.
class Namer {
 public:
  explicit Namer(const Graph& graph) { collect(graph); }

  void assign(Graph& graph, std::unordered_set<std::string> visible) {
    // Inputs and outputs of the graph keep their names: those are how it is called.
    for (Value* v : graph.inputs()) name(*v, "input", visible);
    std::unordered_set<const Value*> named(graph.inputs().begin(), graph.inputs().end());
    for (Value* v : graph.outputs())
      if (v && named.insert(v).second) name(*v, v->producer() ? v->producer()->type() + "_out" : "constant", visible);
    for (const auto& v : graph.constants())
      if (!named.contains(v.get())) name(*v, "constant", visible);
    std::unordered_set<std::string> nodes;
    for (const auto& n : graph.nodes()) {
      if (n->name.empty()) n->name = fresh(n->type());
      if (!nodes.insert(n->name).second) n->name = fresh(n->name);  // a body that was put in more than once
      for (size_t i = 0; i < n->output_count(); ++i)
        if (Value* o = n->output(i); o && !named.contains(o)) name(*o, n->type() + "_out", visible);
    }
    for (const auto& n : graph.nodes())
      for (Graph* body : n->subgraphs()) {
        std::unordered_set<std::string> captured;
        for (const Value* v : body->captured()) captured.emplace(v->name());
        assign(*body, std::move(captured));
      }
  }

 private:
  void collect(const Graph& graph) {
    for (const Value* v : graph.inputs()) used_.emplace(v->name());
    for (const auto& v : graph.constants()) used_.emplace(v->name());
    for (const auto& n : graph.nodes()) {
      used_.insert(n->name);
      for (size_t i = 0; i < n->output_count(); ++i)
        if (n->output(i)) used_.emplace(n->output(i)->name());
      for (const Graph* body : n->subgraphs()) collect(*body);
    }
  }
  std::string fresh(const std::string& stem) {
    for (;;) {
      std::string name = fmt::format("{}_{}", stem, next_[stem]++);
      if (used_.insert(name).second) return name;
    }
  }
  void name(Value& value, const std::string& stem, std::unordered_set<std::string>& visible) {
    if (value.name().empty() || !visible.emplace(value.name()).second) {
      value.set_name(fresh(value.name().empty() ? stem : std::string(value.name())));
      visible.emplace(value.name());
    }
  }

  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, size_t> next_;
};

}  // namespace

void Graph::assign_names() { Namer(*this).assign(*this, {}); }

}  // namespace attune
