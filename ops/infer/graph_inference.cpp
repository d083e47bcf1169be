#include "ops/infer/graph_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ops/infer/contents.h"
#include "ops/infer/function_call.h"
#include "ops/infer/node_inference.h"
#include "ops/infer/schema_fallback.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

// Unlike operator==, an unknown Dim is the same as another.
bool same_dims(const Dims& a, const Dims& b) {
  const auto same = [](const Dim& x, const Dim& y) { return x == y || (!x.known() && !y.known()); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool same_contents(const SymbolicTensor* a, const SymbolicTensor* b) {
  if (!a || !b) return a == b;
  return a->type == b->type && a->shape == b->shape && a->reals == b->reals && same_dims(a->integers, b->integers);
}

void check_inputs(const Node& node, size_t wanted) {
  for (size_t i = 0; i < wanted; ++i)
    if (!node.input(i)) invalid(fmt::format("input {} is missing", i));
}

}  // namespace

std::map<std::string, int64_t> normalized_opsets(const std::map<std::string, int64_t>& imports) {
  std::map<std::string, int64_t> out;
  for (const auto& [domain, version] : imports) out[domain == "ai.onnx" ? "" : domain] = version;
  return out;
}

int64_t fresh_number(std::string_view symbol) {
  int64_t number = -1;
  if (symbol.starts_with('?') && symbol.size() < 18)
    std::from_chars(symbol.data() + 1, symbol.data() + symbol.size(), number);
  return number;
}

bool is_fresh(const Dim& dim) { return dim.as_symbol().starts_with('?'); }

bool same_type(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.key != b.key || a.tensor.element != b.tensor.element) return false;
  if (a.tensor.shape.has_value() != b.tensor.shape.has_value()) return false;
  if (a.tensor.shape && !same_dims(*a.tensor.shape, *b.tensor.shape)) return false;
  if (!a.element || !b.element) return !a.element && !b.element;
  return same_type(*a.element, *b.element);
}

void for_each_value(Graph& graph, const std::function<void(Value&)>& f) {
  for (Value* v : graph.inputs()) f(*v);
  for (const auto& v : graph.constants()) f(*v);
  for (const auto& n : graph.nodes()) {
    for (size_t i = 0; i < n->output_count(); ++i)
      if (Value* v = n->output(i)) f(*v);
    for (Graph* body : n->subgraphs()) for_each_value(*body, f);
  }
}

void GraphInference::infer(Graph& graph) {
  for (Node* node : graph.topological_order()) infer(*node);
}

std::vector<Value*> GraphInference::infer(Node& node) {
  if (--inference_.budget_ < 0)
    throw Error(Error::Kind::kLimit, "types don't settle: bodies or functions nest too deeply");
  return within([&] { return node.label(); },
                [&] {
                  NodeInference context(inference_, node);
                  const Model* model = inference_.model_;
                  const Function* function = model && !model->functions.empty()
                                                 ? model->find_function(node.domain(), node.type(), node.overload)
                                                 : nullptr;
                  if (function) {
                    infer_call(context, *function);
                  } else if (const InferRule* rule = find_infer_rule(node.domain(), node.type())) {
                    check_inputs(node, rule->min_inputs);
                    rule->infer(context);
                  } else {
                    infer_by_schema(context);
                  }
                  std::vector<Value*> changed;
                  for (size_t i = 0; i < node.output_count(); ++i) {
                    auto& [type, contents] = context.outputs_[i];
                    if (node.output(i) && assign(*node.output(i), type, std::move(contents)))
                      changed.push_back(node.output(i));
                  }
                  return changed;
                });
}

bool GraphInference::assign(Value& value, const ValueType& type, std::optional<SymbolicTensor> contents) {
  ValueType merged =
      within([&] { return fmt::format("value '{}'", value.name()); }, [&] { return merge(value.type(), type); });
  name_unknown(merged);
  bool changed = !same_type(merged, value.type());
  if (changed) value.set_type(std::move(merged));

  auto& all = inference_.contents_;
  const auto it = all.find(&value);
  if (contents && !any_known(*contents)) contents.reset();
  changed = changed || !same_contents(it == all.end() ? nullptr : &it->second, contents ? &*contents : nullptr);
  if (contents) {
    all.insert_or_assign(&value, std::move(*contents));
  } else if (it != all.end()) {
    all.erase(it);
  }
  return changed;
}

Dim GraphInference::fresh() { return Dim::symbol(fmt::format("?{}", inference_.fresh_++)); }

void GraphInference::name_unknown(ValueType& type) {
  if (!type.tensor.shape) return;
  for (Dim& d : *type.tensor.shape)
    if (!d.known()) d = fresh();
}

Dim GraphInference::resolve(const Dim& dim) const {
  const auto& equal = inference_.equal_;
  if (equal.empty() || dim.constant()) return dim;
  Dim out = dim;
  for (;;) {
    const auto symbols = out.symbols();
    if (std::none_of(symbols.begin(), symbols.end(), [&](const auto& s) { return equal.contains(s); })) return out;
    out = out.substitute(equal);
  }
}

void GraphInference::resolve(Value& value) const {
  if (inference_.equal_.empty()) return;
  if (const auto& shape = value.tensor_type().shape) {
    Dims dims;
    for (const Dim& d : *shape) dims.push_back(resolve(d));
    if (dims != *shape) {
      ValueType type = value.type();
      type.tensor.shape = std::move(dims);
      value.set_type(std::move(type));
    }
  }
  if (const auto it = inference_.contents_.find(&value); it != inference_.contents_.end())
    for (Dim& d : it->second.integers) d = resolve(d);
}

void GraphInference::resolve_all(Graph& graph) const {
  for_each_value(graph, [&](Value& v) { resolve(v); });
}

std::optional<Dim> GraphInference::unify(const Dim& a, const Dim& b) {
  const Dim x = resolve(a), y = resolve(b);
  if (!x.known() || x == y) return y;
  if (!y.known()) return x;
  if (x.constant() && y.constant()) return std::nullopt;
  const auto bind = [&](const Dim& fresh_dim, const Dim& to) {
    const std::string symbol = fresh_dim.as_symbol();
    if (to.symbols().contains(symbol)) return fresh_dim;
    if (fresh_number(symbol) >= inference_.scope_) inference_.equal_.insert_or_assign(symbol, to);
    return to;
  };
  // Of two, the newer one, which may be in the scope.
  if (is_fresh(x) && fresh_number(x.as_symbol()) > fresh_number(y.as_symbol())) return bind(x, y);
  if (is_fresh(y)) return bind(y, x);
  return y.constant() ? y : x;
}

ValueType GraphInference::merge(const ValueType& declared, const ValueType& inferred) {
  using Kind = ValueType::Kind;
  if (inferred.kind == Kind::kUnknown) return declared;
  if (declared.kind == Kind::kUnknown) return inferred;
  const auto contradiction = [&] {
    invalid(fmt::format("declared as {}, but it is {}", declared.to_string(), inferred.to_string()));
  };
  if (inferred.kind == Kind::kOptional && declared.kind != Kind::kOptional && inferred.element)
    return merge(declared, *inferred.element);
  if (declared.kind != inferred.kind) contradiction();
  ValueType out = inferred;
  if (declared.element && inferred.element) {
    out.element = std::make_shared<const ValueType>(merge(*declared.element, *inferred.element));
  } else if (!out.element) {
    out.element = declared.element;
  }
  TensorType& tensor = out.tensor;
  if (tensor.element == DataType::kUndefined) tensor.element = declared.tensor.element;
  if (declared.tensor.element != DataType::kUndefined && declared.tensor.element != tensor.element) contradiction();
  if (!declared.tensor.shape) return out;
  if (!tensor.shape) {
    tensor.shape = declared.tensor.shape;
    return out;
  }
  if (declared.tensor.shape->size() != tensor.shape->size()) contradiction();
  for (size_t i = 0; i < tensor.shape->size(); ++i) {
    const Dim& was = (*declared.tensor.shape)[i];
    Dim& is = (*tensor.shape)[i];
    // A declared symbol counts only where nothing is inferred.
    if (was.constant() || is_fresh(was) || !is.known()) {
      const auto both = unify(is, was);
      if (!both) contradiction();
      is = *both;
    }
  }
  return out;
}

GraphInference::Snapshot GraphInference::save(Graph& body) const {
  Snapshot out;
  out.equal = inference_.equal_;
  out.relations = inference_.relations_.size();
  for_each_value(body, [&](Value& v) {
    if (!v.constant()) out.types.emplace_back(&v, v.type());
  });
  return out;
}

void GraphInference::restore(const Snapshot& snapshot) {
  inference_.equal_ = snapshot.equal;
  inference_.relations_.resize(std::min(snapshot.relations, inference_.relations_.size()));
  for (const auto& [value, type] : snapshot.types) {
    value->set_type(type);
    inference_.contents_.erase(value);
  }
}

}  // namespace attune
