#include "tests/spoil/edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "ops/support/cast.h"

namespace attune::test {
namespace {

using Types = std::vector<std::string>;

// Operators that take the same inputs.
const std::vector<Types>& families() {
  static const std::vector<Types> kFamilies = {
      {"Add", "Sub", "Mul", "Div", "Max", "Min"},
      {"Softmax", "LogSoftmax", "Hardmax"},
      {"Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Exp", "Sqrt", "Reciprocal", "Erf", "Identity"},
      {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"},
      {"And", "Or", "Xor"},
      {"Not", "Identity"},
      {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}};
  return kFamilies;
}

std::vector<Node*> all_nodes(const Model& model) {
  std::vector<Node*> nodes;
  model.graph->for_each_node([&](Node& n) {
    if (n.type() != "Constant") nodes.push_back(&n);
  });
  return nodes;
}

std::string named(const Value* v) { return "'" + std::string(v->name()) + "'"; }

Tensor of_numbers(DataType type, const Shape& shape, const std::vector<double>& numbers) {
  return cast(Tensor::from<double>(shape, std::span<const double>(numbers)), type, nullptr);
}

bool has_numbers(const Tensor& t) {
  return t.type() == DataType::kFloat || t.type() == DataType::kFloat16 || t.type() == DataType::kDouble;
}

// The node again, as another operator or with other outputs to the same users.
void retype(Node& n, const std::string& type) {
  Graph& graph = *n.graph();
  Node* other =
      graph.insert_node(&n, n.domain(), type, {n.inputs().begin(), n.inputs().end()}, n.output_count(), n.attributes());
  other->name = n.name;
  if (type == "Identity") other->attributes().clear();
  for (size_t i = 0; i < n.output_count(); ++i)
    if (n.output(i)) graph.replace_all_uses(n.output(i), other->output(i));
  graph.erase(&n);
}

// Whether `type` takes what `n` takes: a node that was read as Identity of another family is not retyped.
std::string other_operator(Node& n, Random& random) {
  if (!n.domain().empty()) return {};
  for (const Types& family : families()) {
    if (std::find(family.begin(), family.end(), n.type()) == family.end()) continue;
    const std::string& type = random.pick(family);
    if (type == n.type()) return {};
    const std::string what = fmt::format("{} becomes {}", n.label(), type);
    retype(n, type);
    return what;
  }
  return {};
}

std::string other_attribute(Node& n, Random& random) {
  std::vector<std::string> names;
  for (const auto& [name, value] : n.attributes())
    if (std::holds_alternative<int64_t>(value) || std::holds_alternative<float>(value) ||
        std::holds_alternative<std::vector<int64_t>>(value))
      names.push_back(name);
  if (names.empty()) return {};
  const std::string name = random.pick(names);
  Attribute& value = n.attributes().find(name)->second;
  if (auto* number = std::get_if<int64_t>(&value)) {
    *number = random.one_in(3) ? -*number : *number + (random.one_in(2) ? 1 : -1);
    return fmt::format("{} of {} becomes {}", name, n.label(), *number);
  }
  if (auto* number = std::get_if<float>(&value)) {
    *number = random.pick(std::vector<float>{-*number, *number * 2, 0, *number + 1});
    return fmt::format("{} of {} becomes {}", name, n.label(), *number);
  }
  auto& numbers = std::get<std::vector<int64_t>>(value);
  if (numbers.empty()) return {};
  const size_t i = random.below(numbers.size());
  if (name == "perm" || random.one_in(2)) {
    std::swap(numbers[i], numbers[random.below(numbers.size())]);
  } else {
    numbers[i] += random.one_in(2) ? 1 : -1;
  }
  return fmt::format("{} of {} becomes {}", name, n.label(), fmt::join(numbers, ","));
}

std::string swapped_inputs(Node& n, Random& random) {
  if (n.inputs().size() < 2) return {};
  const size_t a = random.below(n.inputs().size()), b = random.below(n.inputs().size());
  if (n.input(a) == n.input(b)) return {};
  Value* first = n.input(a);
  n.set_input(a, n.input(b));
  n.set_input(b, first);
  return fmt::format("inputs {} and {} of {} are swapped", a, b, n.label());
}

std::vector<int64_t> other_integers(std::vector<int64_t> x, Random& random) {
  const size_t i = random.below(x.size()), j = random.below(x.size());
  switch (random.below(5)) {
    case 0:
      std::swap(x[i], x[j]);
      break;
    case 1:
      if (x[i] % 2 == 0 && i != j) {
        x[i] /= 2;
        x[j] *= 2;
      }
      break;
    case 2:
      x[i] = random.pick(std::vector<int64_t>{0, 1, 2, -1, -x[i]});
      break;
    case 3:
      std::rotate(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(i), x.end());
      break;
    default:
      x[i] += random.one_in(2) ? 1 : -1;
  }
  return x;
}

Tensor other_numbers(const Tensor& t, Random& random) {
  std::vector<double> x = t.to_contiguous().to_double();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x.size() == 1 && random.one_in(2)) {
    // More of them, which broadcast.
    static const std::vector<Shape> kShapes = {{2, 1, 1}, {1, 1, 2}, {2, 1}, {3},    {8},         {1, 1, 1, 1},
                                               {1},       {4, 1, 1}, {8, 1}, {1, 1}, {2, 1, 1, 1}};
    const Shape shape = random.pick(kShapes);
    std::vector<double> more;
    for (int64_t i = 0; i < shape.count(); ++i) more.push_back(x[0] * (1 + 0.5 * static_cast<double>(i)));
    return of_numbers(t.type(), shape, more);
  }
  if (x.size() == 1 || random.one_in(2)) {
    const double factor = random.pick(std::vector<double>{-1, 0, 2, kInfinity, -kInfinity, 1e4, 1e-3});
    const double number = random.pick(std::vector<double>{0, 1, -1, -100, -1e9, kInfinity, -kInfinity});
    const bool replace = random.one_in(2);
    for (double& e : x) e = replace ? number : e * factor;
  } else {
    x[random.below(x.size())] += 0.5;
  }
  return of_numbers(t.type(), t.shape(), x);
}

std::string other_constant(Node& n, Random& random) {
  std::vector<size_t> constants;
  for (size_t i = 0; i < n.inputs().size(); ++i)
    if (n.input(i) && n.input(i)->constant() && n.input(i)->constant()->count() > 0) constants.push_back(i);
  if (constants.empty()) return {};
  const size_t i = random.pick(constants);
  const Tensor t = *n.input(i)->constant();
  Tensor other;
  if (has_numbers(t)) {
    other = other_numbers(t, random);
  } else if (t.type() == DataType::kInt64) {
    const auto x = other_integers(t.to_contiguous().to_int64(), random);
    other = Tensor::from<int64_t>(t.shape(), std::span<const int64_t>(x));
  } else {
    return {};
  }
  n.set_input(i, n.graph()->add_constant(other));
  const auto shown = other.to_double();
  return fmt::format(
      "input {} of {} becomes {} {}", i, n.label(), other.shape().to_string(),
      fmt::join(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(shown.size(), 8)), ","));
}

Graph* outermost(Graph* graph) {
  while (graph->parent()) graph = graph->parent();
  return graph;
}

// A constant that the caller gives instead.
std::string input_for_constant(Node& n, Random& random) {
  if (n.inputs().empty()) return {};
  const size_t i = random.below(n.inputs().size());
  if (!n.input(i) || !n.input(i)->constant() || !has_numbers(*n.input(i)->constant())) return {};
  const Tensor& t = *n.input(i)->constant();
  Dims dims;
  for (size_t axis = 0; axis < t.rank(); ++axis) dims.emplace_back(t.dim(axis));
  n.set_input(i, outermost(n.graph())->add_input("spoiled_input", ValueType::of(t.type(), dims)));
  return fmt::format("input {} of {} becomes an input of the model", i, n.label());
}

// Users of output `i` read `replacement` instead, but for the nodes that make the replacement.
void redirect(Value* from, Value* to, const std::vector<Node*>& but) {
  const std::vector<Use> uses(from->uses().begin(), from->uses().end());
  for (const Use& u : uses)
    if (std::find(but.begin(), but.end(), u.node) == but.end()) u.node->set_input(u.index, to);
}

// An operator that reads `v` and gives a value of its type.
Value* changed(Value* v, Random& random, std::vector<Node*>& made, std::string& what) {
  Graph& graph = *v->graph();
  const auto make = [&](const std::string& type, std::vector<Value*> inputs, Attributes attributes = {}) {
    made.push_back(graph.add_node("", type, std::move(inputs), 1, std::move(attributes)));
    return made.back()->output();
  };
  const int rank = v->tensor_type().rank();
  if (rank > 1 && random.one_in(3)) {
    std::vector<int64_t> perm;
    for (int i = 0; i < rank; ++i) perm.push_back(i);
    std::swap(perm[random.below(perm.size())], perm[random.below(perm.size())]);
    what = fmt::format("Transpose {}", fmt::join(perm, ","));
    return make("Transpose", {v}, {{"perm", perm}});
  }
  if (random.one_in(5)) {
    what = "Add of itself";
    return make("Add", {v, v});
  }
  if (random.one_in(4)) {
    what = "product with its softmax";
    return make("Mul", {v, make("Softmax", {v}, {{"axis", int64_t{-1}}})});
  }
  what = random.pick(Types{"Neg", "Tanh", "Abs", "Relu"});
  return make(what, {v});
}

std::string operator_behind(Node& n, Random& random) {
  Value* v = n.output(random.below(n.output_count()));
  if (!v || v->is_graph_output()) return {};
  std::vector<Node*> made;
  std::string what;
  Value* to = changed(v, random, made, what);
  redirect(v, to, made);
  return fmt::format("{} behind {}", what, n.label());
}

std::string operator_in_front(Node& n, Random& random) {
  if (n.inputs().empty()) return {};
  const size_t i = random.below(n.inputs().size());
  if (!n.input(i) || n.input(i)->graph() != n.graph()) return {};
  std::vector<Node*> made;
  std::string what;
  n.set_input(i, changed(n.input(i), random, made, what));
  return fmt::format("{} in front of input {} of {}", what, i, n.label());
}

std::string consumer(Node& n, Random& random) {
  if (n.graph()->parent_node()) return {};
  Value* v = n.output(random.below(n.output_count()));
  if (!v || v->is_graph_output() || v->type().kind != ValueType::Kind::kTensor) return {};
  Graph& graph = *n.graph();
  const std::string type = random.pick(Types{"", "Neg", "Shape"});
  Value* shown = type.empty() ? v : graph.add_node("", type, {v})->output();
  if (shown->name().empty()) shown->set_name("spoiled_output");
  graph.add_output(shown);
  return fmt::format("{} of {} becomes an output", type.empty() ? "the result" : type, n.label());
}

std::string skipped(Node& n, Random& random) {
  Value* v = n.output();
  if (!v || v->is_graph_output() || n.inputs().empty()) return {};
  Value* from = n.input(random.below(n.inputs().size()));
  if (!from) return {};
  redirect(v, from, {});
  return fmt::format("{} is skipped", n.label());
}

// Another value of the same shape.
std::string other_source(Node& n, Random& random) {
  if (n.inputs().empty()) return {};
  const size_t i = random.below(n.inputs().size());
  Value* v = n.input(i);
  if (!v || v->type().kind != ValueType::Kind::kTensor || !v->tensor_type().has_rank()) return {};
  std::vector<Value*> candidates;
  const auto offer = [&](Value* x) {
    if (x && x != v && x->element_type() == v->element_type() && x->tensor_type().shape == v->tensor_type().shape)
      candidates.push_back(x);
  };
  for (Value* x : n.graph()->inputs()) offer(x);
  for (const auto& c : n.graph()->constants()) offer(c.get());
  for (const auto& node : n.graph()->nodes()) {
    if (node.get() == &n) break;  // nodes behind would make a cycle
    for (size_t o = 0; o < node->output_count(); ++o) offer(node->output(o));
  }
  if (candidates.empty()) return {};
  Value* to = random.pick(candidates);
  n.set_input(i, to);
  return fmt::format("input {} of {} becomes {}", i, n.label(), named(to));
}

void forget_types(Graph& graph) {
  graph.for_each_node([](Node& n) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) n.output(i)->set_type({});
  });
}

}  // namespace

Model copy_of(const Model& model) {
  Model copy = model;
  copy.graph = model.graph->clone();
  return copy;
}

void tell_elements_apart(Model& model, Random& random) {
  std::vector<Value*> uniform;
  for (const auto& c : model.graph->constants()) {
    const Tensor* t = c->constant();
    if (!t || !has_numbers(*t) || t->rank() == 0 || t->count() < 4) continue;
    const auto x = t->to_contiguous().to_double();
    if (x[0] != 0 && std::abs(x[0]) < 100 && std::all_of(x.begin(), x.end(), [&](double e) { return e == x[0]; }))
      uniform.push_back(c.get());
  }
  for (Value* v : uniform) {
    const Tensor& t = *v->constant();
    std::vector<double> x = t.to_contiguous().to_double();
    for (double& e : x) e *= 1 + 0.5 * random.number();
    Value* to = model.graph->add_constant(of_numbers(t.type(), t.shape(), x));
    model.graph->replace_all_uses(v, to);
  }
}

std::string spoil(Model& model, Random& random) {
  using Edit = std::string (*)(Node&, Random&);
  static const std::vector<Edit> kEdits = {
      other_operator,     other_attribute, swapped_inputs, other_constant,    other_constant, other_source,
      input_for_constant, operator_behind, consumer,       operator_in_front, skipped};
  const auto nodes = all_nodes(model);
  if (nodes.empty()) return {};
  std::string what = random.pick(kEdits)(*random.pick(nodes), random);
  if (!what.empty()) {
    model.graph->sort();
    forget_types(*model.graph);
  }
  return what;
}

std::string loosen_declarations(Model& model, Loosened how, bool all, Random& random) {
  for (Value* v : model.graph->inputs()) {
    if (v->type().kind != ValueType::Kind::kTensor || (!all && !random.one_in(2))) continue;
    ValueType type = v->type();
    if (!type.tensor.shape) continue;
    for (size_t axis = 0; axis < type.tensor.shape->size(); ++axis) {
      Dim& d = (*type.tensor.shape)[axis];
      if (how == Loosened::kSizes) d = Dim();
      if (how == Loosened::kNames && !d.constant()) d = Dim::symbol(fmt::format("{}_{}", v->name(), axis));
    }
    if (how == Loosened::kRanks) type.tensor.shape.reset();
    v->set_type(type);
  }
  forget_types(*model.graph);
  const std::string of = all ? "" : " of some inputs";
  return (how == Loosened::kRanks   ? "no ranks"
          : how == Loosened::kSizes ? "no sizes"
                                    : "a name of its own for each size") +
         of;
}

void disturb(Model& model, Random& random) {
  std::vector<Value*> weights;
  for (const auto& c : model.graph->constants())
    if (c->constant() && has_numbers(*c->constant()) && c->constant()->count() > 1) weights.push_back(c.get());
  for (Value* v : weights) {
    const Tensor& t = *v->constant();
    std::vector<double> x = t.to_contiguous().to_double();
    const double step = t.type() == DataType::kFloat16 ? 1e-3 : 2e-7;
    for (double& e : x) e *= 1 + step * random.number();
    model.graph->replace_all_uses(v, model.graph->add_constant(of_numbers(t.type(), t.shape(), x)));
  }
}

}  // namespace attune::test
