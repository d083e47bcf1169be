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
  const auto input = [&](const char* name, DataType type) {
    return decoder.add_input(name, ValueType::of(type, Dims{Dim::symbol(name)}));
  };
  Value *request = input("attune.request", DataType::kInt64), *offsets = input("attune.offsets", DataType::kFloat);
  decoder.set_default(request, Tensor::from<int64_t>({1}, {1}));
  decoder.set_default(offsets, Tensor::allocate(DataType::kFloat, {0}));
  Node* top = decoder.add_node("ai.attune.runtime", "LinearTop", {head->x, head->weights, head->bias, request, offsets},
                               2, {{"transposed", int64_t{head->transposed}}});
  model.opset_imports["ai.attune.runtime"] = 1;
  const size_t first = decoder.outputs().size();
  const std::pair<const char*, DataType> outputs[] = {{"attune.best", DataType::kInt64},
                                                      {"attune.scores", DataType::kFloat}};
  for (size_t i = 0; i < 2; ++i) {
    top->output(i)->set_type(ValueType::of(outputs[i].second, Dims{Dim(), Dim()}));
    top->output(i)->set_name(outputs[i].first);
    decoder.add_output(top->output(i));
  }
  return Selection{first, first + 1, static_cast<size_t>(head->columns)};
}

}  // namespace attune
