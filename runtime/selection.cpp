#include "runtime/selection.h"

#include "ops/support/stored_weights.h"

namespace attune {
namespace {

// The constant operand of a sum, if it is a vector of one number for each of `columns`; null if there is none.
Value* vector_of(const Node& sum, size_t data, int64_t columns) {
  Value* v = sum.input(1 - data);
  const Tensor* t = v ? v->constant() : nullptr;
  return t && t->count() == columns && t->rank() >= 1 && t->shape().back() == columns ? v : nullptr;
}

struct Head {
  Value* x;
  Value* weights;
  Value* bias = nullptr;
  bool transposed = false;
  int64_t columns = 0;
};

// The product itself.
std::optional<Head> product_of(const Node& n) {
  Head head{n.input(0), n.input(1)};
  if (n.is("Linear", "ai.attune")) {
    if (n.input(3) || n.attr_string("activation", "none") != "none") return std::nullopt;
    head.bias = n.input(2);
    head.transposed = n.attr_int("transposed", 0) != 0;
  } else if (!n.is("MatMul")) {
    return std::nullopt;
  }
  const Value* stored = head.weights;
  while (stored && !stored->constant() && stored->producer() && widens_stored_matrix(*stored->producer()))
    stored = stored->producer()->input(0);
  const Tensor* t = stored ? stored->constant() : nullptr;
  if (!t || t->rank() != 2 || head.x->element_type() == DataType::kDouble) return std::nullopt;
  if (head.bias && !head.bias->constant()) return std::nullopt;
  head.columns = t->dim(head.transposed ? 0 : 1);
  return head;
}

std::optional<Head> head_of(const Value& logits) {
  const Node* n = logits.producer();
  if (!n || logits.element_type() != DataType::kFloat) return std::nullopt;
  if (!n->is("Add")) return product_of(*n);
  for (const size_t data : {size_t{0}, size_t{1}}) {
    const Node* product = n->input(data) ? n->input(data)->producer() : nullptr;
    auto head = product ? product_of(*product) : std::nullopt;
    if (!head || head->bias) continue;
    head->bias = vector_of(*n, data, head->columns);
    if (head->bias) return head;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Selection> add_selection(Model& model, size_t logits) {
  Graph& decoder = *model.graph;
  const auto head = head_of(*decoder.outputs()[logits]);
  if (!head || head->columns == 0) return std::nullopt;
  Value* excluded =
      decoder.add_input("attune.excluded", ValueType::of(DataType::kInt64, Dims{Dim::symbol("attune.excluded")}));
  decoder.set_default(excluded, Tensor::allocate(DataType::kInt64, {0}));
  Node* top = decoder.add_node("ai.attune.runtime", "LinearTop", {head->x, head->weights, head->bias, excluded}, 1,
                               {{"transposed", int64_t{head->transposed}}});
  model.opset_imports["ai.attune.runtime"] = 1;
  top->output()->set_type(ValueType::of(DataType::kInt64, Dims{Dim()}));
  top->output()->set_name("attune.best");
  decoder.add_output(top->output());
  return Selection{decoder.outputs().size() - 1, static_cast<size_t>(head->columns)};
}

}  // namespace attune
