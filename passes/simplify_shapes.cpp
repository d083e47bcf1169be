// Integers computed from shapes, rewritten to be computed from sizes of graph inputs, or to be constants.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ops/infer/infer.h"
#include "passes/passes.h"

namespace attune {
namespace {

// Where a symbol can be read off.
struct Source {
  Value* input;
  int64_t axis;
};

// Computes expressions over sizes of graph inputs with nodes of the model's outermost graph, each one once.
class SizeBuilder {
 public:
  explicit SizeBuilder(Graph& graph) : graph_(graph) {
    // A symbol that several inputs have is read off the one of lowest rank: where callers give an empty cache (the
    // branch of a merged decoder that has none), ids and masks still have the sizes that they declare.
    std::vector<Value*> inputs(graph.inputs().begin(), graph.inputs().end());
    std::stable_sort(inputs.begin(), inputs.end(),
                     [](const Value* a, const Value* b) { return a->tensor_type().rank() < b->tensor_type().rank(); });
    for (Value* v : inputs)
      for (int axis = 0; axis < v->tensor_type().rank(); ++axis)
        if (const std::string symbol = v->tensor_type().dim(axis).as_symbol(); !symbol.empty())
          sources_.emplace(symbol, Source{v, axis});
  }

  bool can_compute(const Dim& d) const {
    const auto summands = d.summands();
    if (!summands) return false;
    for (const Dim::Summand& summand : *summands)
      for (const std::string& symbol : summand.symbols)
        if (!sources_.contains(symbol)) return false;
    return true;
  }

  // An int64 tensor of rank 1 with the elements `dims`.
  Value* vector(const Dims& dims) {
    std::string key = to_string(dims);
    if (const auto it = vectors_.find(key); it != vectors_.end()) return it->second;
    Value* v = nullptr;
    if (std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.constant().has_value(); })) {
      std::vector<int64_t> values;
      for (const Dim& d : dims) values.push_back(*d.constant());
      v = graph_.add_constant(
          Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)));
    } else if (dims.size() == 1) {
      v = sum(dims[0]);
    } else {
      std::vector<Value*> elements;
      for (const Dim& d : dims) elements.push_back(vector({d}));
      v = node("Concat", std::move(elements), {{"axis", int64_t{0}}});
    }
    vectors_.emplace(std::move(key), v);
    return v;
  }

  Value* scalar(const Dim& d) {
    if (const auto c = d.constant()) return graph_.add_constant(Tensor::scalar(*c));
    const std::string key = d.to_string();
    if (const auto it = scalars_.find(key); it != scalars_.end()) return it->second;
    Value* v = nullptr;
    if (const std::string symbol = d.as_symbol(); !symbol.empty()) {
      const Source& s = sources_.at(symbol);
      v = node("Gather", {shape_of(s.input), graph_.add_constant(Tensor::scalar(s.axis))}, {{"axis", int64_t{0}}});
    } else {
      v = node("Reshape", {vector({d}), vector({})});
    }
    scalars_.emplace(key, v);
    return v;
  }

  bool made(const Node* n) const { return made_.contains(n); }

 private:
  Value* sum(const Dim& d) {
    Value* total = nullptr;
    const auto summands = d.summands();
    for (const Dim::Summand& summand : *summands) {
      Value* product = nullptr;
      if (summand.factor != 1 || summand.symbols.empty()) product = vector({Dim(summand.factor)});
      for (const std::string& symbol : summand.symbols) {
        Value* factor = size(symbol);
        product = product ? node("Mul", {product, factor}) : factor;
      }
      total = total ? node("Add", {total, product}) : product;
    }
    return total;
  }

  Value* size(const std::string& symbol) {
    const auto [it, added] = sizes_.emplace(symbol, nullptr);
    if (added) {
      const Source& s = sources_.at(symbol);
      it->second = node("Gather", {shape_of(s.input), vector({Dim(s.axis)})}, {{"axis", int64_t{0}}});
    }
    return it->second;
  }

  Value* shape_of(Value* input) {
    const auto [it, added] = shapes_.emplace(input, nullptr);
    if (added) it->second = node("Shape", {input});
    return it->second;
  }

  Value* node(std::string type, std::vector<Value*> inputs, Attributes attributes = {}) {
    Node* n = graph_.add_node("", std::move(type), std::move(inputs), 1, std::move(attributes));
    made_.emplace(n, true);
    return n->output();
  }

  Graph& graph_;
  std::unordered_map<std::string, Source> sources_;
  std::unordered_map<std::string, Value*> vectors_, scalars_, sizes_;
  std::unordered_map<const Value*, Value*> shapes_;
  std::unordered_map<const Node*, bool> made_;
};

class Simplifier {
 public:
  explicit Simplifier(const Model& model) : inference_(model), builder_(*model.graph) {}

  size_t run(Graph& graph) {
    for (Node* n : graph.topological_order()) {
      if (builder_.made(n)) continue;
      for (Graph* body : n->subgraphs()) run(*body);
      if (n->is("Reshape")) write_target_out(*n);
      for (size_t i = 0; i < n->inputs().size(); ++i) simplify_input(*n, i);
    }
    return changes_;
  }

 private:
  // A Reshape whose sizes are constants, sizes of its input at the same axis (0), and at most one other (-1).
  void write_target_out(Node& n) {
    const Value* x = n.input(0);
    const auto& result = n.output() ? n.output()->tensor_type().shape : std::optional<Dims>();
    if (!x || !x->tensor_type().shape || !result || !n.input(1) || n.input(1)->constant()) return;
    std::vector<int64_t> target;
    int inferred = 0;
    for (size_t i = 0; i < result->size(); ++i) {
      const Dim& d = (*result)[i];
      if (const auto c = d.constant(); c && *c > 0) {
        target.push_back(*c);
      } else if (static_cast<int>(i) < x->tensor_type().rank() && d == x->tensor_type().dim(static_cast<int>(i))) {
        target.push_back(0);
      } else if (d.is(0)) {
        return;
      } else {
        target.push_back(-1);
        ++inferred;
      }
    }
    if (inferred > 1) return;
    n.attributes().erase("allowzero");
    n.set_input(1, n.graph()->add_constant(
                       Tensor::from<int64_t>({static_cast<int64_t>(target.size())}, std::span<const int64_t>(target))));
    ++changes_;
  }

  // Replaces an input that is a known expression, unless the node's own results are known, too (then their users are
  // what matters).
  void simplify_input(Node& n, size_t i) {
    Value* v = n.input(i);
    if (!v || !v->producer() || v->constant() || builder_.made(v->producer()) || all_known(n)) return;
    const SymbolicTensor* contents = inference_.contents(v);
    if (!contents || !contents->is_integer() || contents->shape.size() > 1 || contents->type != DataType::kInt64)
      return;
    for (const Dim& d : contents->integers)
      if (!builder_.can_compute(d)) return;
    Value* simple =
        contents->shape.empty() ? builder_.scalar(contents->integers.at(0)) : builder_.vector(contents->integers);
    n.set_input(i, simple);
    ++changes_;
  }

  bool all_known(const Node& n) const {
    for (size_t o = 0; o < n.output_count(); ++o) {
      if (!n.output(o)) continue;
      if (n.output(o)->is_graph_output()) return false;
      const SymbolicTensor* c = inference_.contents(n.output(o));
      if (!c || !c->is_integer() || c->shape.size() > 1) return false;
      if (!std::all_of(c->integers.begin(), c->integers.end(), [&](const Dim& d) { return builder_.can_compute(d); }))
        return false;
    }
    return true;
  }

  Inference inference_;
  SizeBuilder builder_;
  size_t changes_ = 0;
};

}  // namespace

size_t simplify_shapes(PassContext& context) {
  const size_t changes = Simplifier(context.model).run(*context.model.graph);
  context.model.graph->erase_unused();
  return changes;
}

}  // namespace attune
