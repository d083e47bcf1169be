#include "convert/float_reference.h"

#include <algorithm>

#include "ops/kernel.h"
#include "ops/portable.h"

namespace attune {
namespace {

ValueType widened(const ValueType& type) {
  ValueType out = type;
  if (is_half(out.tensor.element)) out.tensor.element = DataType::kFloat;
  return out;
}

class Widener {
 public:
  explicit Widener(const Model& model) : model_(model) {
    model_.graph = model.graph->clone();
    model_.metadata.erase(std::string(kActivationsKey));
    read_portable(model_);
  }

  std::optional<Model> run() {
    bool understood = true;
    model_.graph->for_each_node([&](Node& n) {
      for (const std::string_view type : {"QuantizeLinear", "QLinearMatMul", "QLinearConv"})
        understood = understood && !n.is(type);
      understood = understood && (n.domain().empty() || n.domain() == "ai.attune");
    });
    if (!understood || !model_.functions.empty()) return std::nullopt;
    widen(*model_.graph);
    model_.graph->erase_unused();
    model_.graph->sort();
    return std::move(model_);
  }

 private:
  void widen(Graph& graph) {
    for (Value* v : graph.inputs()) v->set_type(widened(v->type()));
    std::vector<Value*> halves;
    for (const auto& c : graph.constants())
      if (is_half(c->element_type())) halves.push_back(c.get());
    for (Value* c : halves) graph.replace_all_uses(c, graph.add_constant(widened(*c->default_value())));
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) widen(*body);
      for (auto& [name, attribute] : n->attributes())
        if (const auto* t = std::get_if<Tensor>(&attribute)) attribute = widened(*t);
      if (n->is("Cast") && is_half(static_cast<DataType>(n->attr_int("to", 0))))
        n->set("to", static_cast<int64_t>(DataType::kFloat));
      // Types follow anew.
      for (size_t i = 0; i < n->output_count(); ++i)
        if (n->output(i)) n->output(i)->set_type(ValueType());
      if (n->is("DynamicQuantizeLinear")) {
        keep_numbers(*n);
      } else if (n->is("MatMulInteger") || n->is("ConvInteger")) {
        multiply_numbers(*n);
      }
    }
  }

  static Value* op(Node& before, const char* type, std::vector<Value*> inputs, Attributes attributes = {}) {
    return before.graph()->insert_node(&before, "", type, std::move(inputs), 1, std::move(attributes))->output();
  }

  // y, scale, zero point = x, 1, 0
  static void keep_numbers(Node& n) {
    Graph& g = *n.graph();
    const auto use = [&](size_t i, Value* now) {
      if (n.output(i)) g.replace_all_uses(n.output(i), now);
    };
    use(0, op(n, "Identity", {n.input(0)}));
    use(1, g.add_constant(Tensor::scalar(1.0F)));
    use(2, g.add_constant(Tensor::scalar(0.0F)));
  }

  // (x - zero point) (w - zero point) in float.
  static void multiply_numbers(Node& n) {
    const auto number = [&](Value* v) { return op(n, "Cast", {v}, {{"to", static_cast<int64_t>(DataType::kFloat)}}); };
    const auto operand = [&](size_t i) {
      Value* v = number(n.input(i));
      return n.input(i + 2) ? op(n, "Sub", {v, number(n.input(i + 2))}) : v;
    };
    Value* x = operand(0);
    Value* w = operand(1);
    n.graph()->replace_all_uses(
        n.output(), n.is("MatMulInteger") ? op(n, "MatMul", {x, w}) : op(n, "Conv", {x, w}, n.attributes()));
  }

  Model model_;
};

}  // namespace

Tensor widened(const Tensor& t) {
  if (!is_half(t.type())) return t;
  const std::vector<double> values = t.to_contiguous().to_double();
  std::vector<float> floats(values.begin(), values.end());
  return Tensor::from<float>(t.shape(), std::span<const float>(floats));
}

std::optional<Model> float_reference(const Model& model) { return Widener(model).run(); }

}  // namespace attune
