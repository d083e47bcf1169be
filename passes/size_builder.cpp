#include "passes/size_builder.h"

#include <algorithm>

namespace attune {

SizeBuilder::SizeBuilder(Graph& outermost, Inference* inference) : graph_(outermost), inference_(inference) {
  // A symbol that several inputs have is read off the one of lowest rank: where callers give an empty cache (the
  // branch of a merged decoder that has none), ids and masks still have the sizes that they declare.
  std::vector<Value*> inputs(outermost.inputs().begin(), outermost.inputs().end());
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const Value* a, const Value* b) { return a->tensor_type().rank() < b->tensor_type().rank(); });
  for (Value* v : inputs)
    for (int axis = 0; axis < v->tensor_type().rank(); ++axis)
      if (const std::string symbol = v->tensor_type().dim(axis).as_symbol(); !symbol.empty())
        sources_.emplace(symbol, Source{v, axis});
}

bool SizeBuilder::can_compute(const Dim& d) const {
  const auto summands = d.summands();
  if (!summands) return false;
  for (const Dim::Summand& summand : *summands)
    for (const std::string& symbol : summand.symbols)
      if (!sources_.contains(symbol)) return false;
  return true;
}

Value* SizeBuilder::vector(const Dims& dims) {
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

Value* SizeBuilder::scalar(const Dim& d) {
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

Value* SizeBuilder::sum(const Dim& d) {
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

Value* SizeBuilder::size(const std::string& symbol) {
  const auto [it, added] = sizes_.emplace(symbol, nullptr);
  if (added) {
    const Source& s = sources_.at(symbol);
    it->second = node("Gather", {shape_of(s.input), vector({Dim(s.axis)})}, {{"axis", int64_t{0}}});
  }
  return it->second;
}

Value* SizeBuilder::shape_of(Value* input) {
  const auto [it, added] = shapes_.emplace(input, nullptr);
  if (added) it->second = node("Shape", {input});
  return it->second;
}

Value* SizeBuilder::node(std::string type, std::vector<Value*> inputs, Attributes attributes) {
  Node* n = graph_.add_node("", std::move(type), std::move(inputs), 1, std::move(attributes));
  if (inference_) inference_->update(n);
  return n->output();
}

}  // namespace attune
