// If, Loop and Scan: types through their bodies.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer/contents.h"
#include "ops/infer/graph_inference.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

Graph& body_of(const NodeInference& n, std::string_view attribute) {
  const auto* body = n.node().find<std::shared_ptr<Graph>>(attribute);
  if (!body || !*body) n.fail(fmt::format("attribute '{}' is not a graph", attribute));
  return **body;
}

// What holds for both. Sizes that differ are unknown. What may be missing in one may be missing.
ValueType common_type(const NodeInference& n, const ValueType& a, const ValueType& b) {
  if (a.kind == ValueType::Kind::kUnknown) return b;
  if (b.kind == ValueType::Kind::kUnknown) return a;
  const auto is_optional_of = [](const ValueType& x, const ValueType& y) {
    return x.kind == ValueType::Kind::kOptional && x.element && x.element->kind == y.kind;
  };
  if (is_optional_of(a, b))
    return {a.kind, {}, std::make_shared<const ValueType>(common_type(n, *a.element, b)), a.key};
  if (is_optional_of(b, a)) return common_type(n, b, a);
  const DataType x = a.tensor.element, y = b.tensor.element;
  const bool agree =
      a.kind == b.kind && a.key == b.key && (x == y || x == DataType::kUndefined || y == DataType::kUndefined);
  if (!agree) n.fail(fmt::format("{} and {} meet", a.to_string(), b.to_string()));
  std::shared_ptr<const ValueType> element = a.element ? a.element : b.element;
  if (a.element && b.element) element = std::make_shared<const ValueType>(common_type(n, *a.element, *b.element));
  return {a.kind,
          {x == DataType::kUndefined ? y : x, common_shape(a.tensor.shape, b.tensor.shape)},
          std::move(element),
          a.key};
}

// Unknown sizes as symbols of their own, whatever the model declares.
ValueType with_fresh_sizes(NodeInference& n, ValueType type) {
  if (type.tensor.shape)
    for (Dim& d : *type.tensor.shape)
      if (!d.known()) d = n.fresh();
  return type;
}

std::optional<SymbolicTensor> common_contents(const SymbolicTensor* a, const SymbolicTensor* b) {
  if (!a || !b || a->shape != b->shape || a->is_integer() != b->is_integer()) return std::nullopt;
  SymbolicTensor out = *a;
  for (size_t i = 0; i < out.integers.size(); ++i)
    if (!(out.integers[i] == b->integers[i])) out.integers[i] = Dim();
  for (size_t i = 0; i < out.reals.size(); ++i)
    if (out.reals[i] != b->reals[i]) out.reals[i].reset();
  return out;
}

// While it lives, sizes of values outside of a body don't become known from inside, as the body may not run.
class ConditionalScope {
 public:
  explicit ConditionalScope(NodeInference& n) : n_(n), outer_(n.enter_scope()) {}
  ~ConditionalScope() { n_.leave_scope(outer_); }
  ConditionalScope(const ConditionalScope&) = delete;
  ConditionalScope& operator=(const ConditionalScope&) = delete;

 private:
  NodeInference& n_;
  int64_t outer_;
};

std::optional<bool> condition(const NodeInference& n, size_t input) {
  const SymbolicTensor* c = n.contents(input);
  if (!c || !c->is_integer() || c->size() != 1) return std::nullopt;
  const auto value = c->integers[0].constant();
  return value ? std::optional(*value != 0) : std::nullopt;
}

void expect_outputs(const NodeInference& n, const Graph& body, size_t least) {
  if (body.outputs().size() < least) n.fail(fmt::format("a body has {} outputs for {}", body.outputs().size(), least));
}

void infer_if(NodeInference& n) {
  Graph &yes = body_of(n, "then_branch"), &no = body_of(n, "else_branch");
  const auto taken = condition(n, 0);
  GraphInference graphs(n.inference());
  const ConditionalScope scope(n);
  for (Graph* branch : {&yes, &no}) {
    expect_outputs(n, *branch, n.output_count());
    try {
      graphs.infer(*branch);
    } catch (const Error&) {
      // A branch that never runs may contradict itself (Squeeze of a size that isn't 1).
      if (!taken || *taken == (branch == &yes)) throw;
    }
  }
  for (size_t k = 0; k < n.output_count(); ++k) {
    const Value *a = yes.outputs()[k], *b = no.outputs()[k];
    const SymbolicTensor *in_a = n.inference().contents(a), *in_b = n.inference().contents(b);
    if (taken) {
      n.set_type(k, (*taken ? a : b)->type());
      if (const SymbolicTensor* c = *taken ? in_a : in_b) n.set_contents(k, *c);
      continue;
    }
    n.set_type(k, with_fresh_sizes(n, common_type(n, a->type(), b->type())));
    if (auto c = common_contents(in_a, in_b)) n.set_contents(k, std::move(*c));
  }
}

// ---- states of Loop and Scan

// Types of the states such that they hold before and after each run of the body: sizes that a run changes are unknown.
// On return the body is inferred with them. State i is input `first_input + i` and output `first_output + i`.
struct StateTypes {
  std::vector<ValueType> types;
  size_t first_input, first_output;
};

bool keep_common(const NodeInference& n, const Graph& body, StateTypes& states) {
  bool stable = true;
  for (size_t i = 0; i < states.types.size(); ++i) {
    ValueType both = common_type(n, states.types[i], body.outputs()[states.first_output + i]->type());
    stable = stable && same_type(both, states.types[i]);
    states.types[i] = std::move(both);
  }
  return stable;
}

void infer_states(NodeInference& n, Graph& body, StateTypes& states) {
  GraphInference graphs(n.inference());
  const auto before = graphs.save(body);
  for (;;) {
    for (size_t i = 0; i < states.types.size(); ++i)
      graphs.assign(*body.inputs()[states.first_input + i], states.types[i], std::nullopt);
    graphs.infer(body);
    // Each round that isn't stable drops a size, a rank or fills a type in: this ends.
    if (keep_common(n, body, states)) return;
    graphs.restore(before);
  }
}

ValueType with_axis(const ValueType& element, const Dim& size, int64_t axis, const NodeInference& n) {
  ValueType out = element;
  if (!out.tensor.shape) return out;
  const size_t at = n.axis(axis, out.tensor.shape->size() + 1);
  out.tensor.shape->insert(out.tensor.shape->begin() + static_cast<std::ptrdiff_t>(at), size);
  return out;
}

// Loop: M, condition, states; body: iteration, condition, states -> condition, states, scanned values.
void infer_loop(NodeInference& n) {
  Graph& body = body_of(n, "body");
  const size_t count = n.input_count() < 2 ? 0 : n.input_count() - 2;
  if (body.inputs().size() != count + 2)
    n.fail(fmt::format("{} states for a body of {} inputs", count, body.inputs().size()));
  expect_outputs(n, body, n.output_count() + 1);
  expect_outputs(n, body, count + 1);
  StateTypes states{{}, 2, 1};
  for (size_t i = 0; i < count; ++i) states.types.push_back(n.type(i + 2));

  const ConditionalScope scope(n);
  GraphInference graphs(n.inference());
  graphs.assign(*body.inputs()[0], ValueType::of(DataType::kInt64, Dims{}), std::nullopt);
  // The body runs only while the condition holds.
  graphs.assign(*body.inputs()[1], ValueType::of(DataType::kBool, Dims{}),
                SymbolicTensor{DataType::kBool, {}, {1}, {}});
  infer_states(n, body, states);

  const auto trips = n.has(0) ? n.elements(0) : std::nullopt;
  const SymbolicTensor* again = n.inference().contents(body.outputs()[0]);
  const bool by_count =
      (!n.has(1) || condition(n, 1) == true) && again && again->integers.size() == 1 && again->integers[0].is(1);
  const Dim runs = by_count && trips && trips->integers.size() == 1 ? Dim::maximum(trips->integers[0], 0) : Dim();
  for (size_t k = 0; k < n.output_count(); ++k)
    n.set_type(k,
               k < count ? with_fresh_sizes(n, states.types[k]) : with_axis(body.outputs()[k + 1]->type(), runs, 0, n));
}

// Scan (from opset 9 on): states, scanned inputs; body: states, elements -> states, elements of the outputs.
void infer_scan(NodeInference& n) {
  if (n.opset() < 9) return;
  Graph& body = body_of(n, "body");
  const int64_t scanned = n.node().attr_int("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<size_t>(scanned) > n.input_count())
    n.fail(fmt::format("num_scan_inputs is {}", scanned));
  const auto elements = static_cast<size_t>(scanned);
  const size_t count = n.input_count() - elements;
  if (body.inputs().size() != n.input_count())
    n.fail(fmt::format("{} inputs for a body of {}", n.input_count(), body.inputs().size()));
  expect_outputs(n, body, std::max(n.output_count(), count));
  const auto input_axes = n.node().attr_ints("scan_input_axes", std::vector<int64_t>(elements, 0));
  const auto output_axes =
      n.node().attr_ints("scan_output_axes", std::vector<int64_t>(body.outputs().size() - count, 0));
  if (input_axes.size() != elements || output_axes.size() != body.outputs().size() - count)
    n.fail("scan axes don't fit the number of scanned values");

  Dim length;
  std::vector<ValueType> element_types;
  for (size_t i = 0; i < elements; ++i) {
    ValueType type = n.type(count + i);
    if (auto& shape = type.tensor.shape) {
      const size_t axis = n.axis(input_axes[i], shape->size());
      length = n.unify(length, (*shape)[axis], "lengths of scanned inputs");
      shape->erase(shape->begin() + static_cast<std::ptrdiff_t>(axis));
    }
    element_types.push_back(std::move(type));
  }
  StateTypes states{{}, 0, 0};
  for (size_t i = 0; i < count; ++i) states.types.push_back(n.type(i));

  const ConditionalScope scope(n);
  GraphInference graphs(n.inference());
  for (size_t i = 0; i < elements; ++i) graphs.assign(*body.inputs()[count + i], element_types[i], std::nullopt);
  infer_states(n, body, states);
  for (size_t k = 0; k < n.output_count(); ++k)
    n.set_type(k, k < count ? with_fresh_sizes(n, states.types[k])
                            : with_axis(body.outputs()[k]->type(), length, output_axes[k - count], n));
}

// The body maps elements of sequences (and tensors, which are the same for all) to elements of sequences.
void infer_sequence_map(NodeInference& n) {
  Graph& body = body_of(n, "body");
  if (body.inputs().size() != n.input_count())
    n.fail(fmt::format("{} inputs for a body of {}", n.input_count(), body.inputs().size()));
  expect_outputs(n, body, n.output_count());
  const ConditionalScope scope(n);
  GraphInference graphs(n.inference());
  for (size_t i = 0; i < n.input_count(); ++i) {
    const ValueType& type = n.type(i);
    const bool mapped = type.kind == ValueType::Kind::kSequence && type.element;
    graphs.assign(*body.inputs()[i], mapped ? *type.element : type, std::nullopt);
  }
  graphs.infer(body);
  for (size_t k = 0; k < n.output_count(); ++k) n.set_type(k, ValueType::sequence(body.outputs()[k]->type()));
}

}  // namespace

InferRules control_flow_rules() {
  return {{"", "If", 1, infer_if},
          {"", "Loop", 0, infer_loop},
          {"", "Scan", 0, infer_scan},
          {"", "SequenceMap", 1, infer_sequence_map}};
}

}  // namespace attune
