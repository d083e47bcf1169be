// Every operator with inputs that an exporter wouldn't write: sizes of zero, empty parameters, counts that don't fit.
// It must throw an Error, or give results of the shape that inference says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/io/text.h"
#include "ops/infer/infer.h"
#include "tests/ops/edge_cases.h"
#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

struct EdgeCase {
  Model model;
  const Node* node;
  int64_t opset;
  std::vector<Tensor> inputs;  // undefined: left out
};

// Small whole numbers from 1 on, as any type has them.
Tensor made(const Value& input) {
  const Dims& dims = *input.tensor_type().shape;
  Shape shape;
  for (const Dim& d : dims) shape.push_back(*d.constant());
  const DataType type = input.element_type();
  if (type == DataType::kString)
    return Tensor::from_strings(shape, std::vector<std::string>(static_cast<size_t>(shape.count()), "a b"));
  std::vector<double> values;
  for (int64_t i = 0; i < shape.count(); ++i)
    values.push_back(static_cast<double>(type == DataType::kBool ? 1 : 1 + i % 3));
  return cast(Tensor::from<double>(shape, values), type, nullptr);
}

EdgeCase read(const EdgeRow& row) {
  EdgeCase c{
      parse_model(fmt::format("<ir_version: 10, opset_import: [\"\" : {}, \"com.microsoft\" : 1, \"ai.attune\" : 1, "
                              "\"ai.attune.runtime\" : 1]>"
                              "\ng {}",
                              row.opset, row.graph)),
      nullptr,
      row.opset,
      {}};
  c.model.graph->for_each_node([&](const Node& n) { c.node = &n; });
  if (!c.node->domain().empty()) c.opset = 1;
  for (const Value* v : c.node->inputs()) c.inputs.push_back(!v ? Tensor() : v->constant() ? *v->constant() : made(*v));
  return c;
}

// `t` with another shape: its elements again and again.
Tensor with_shape(const Tensor& t, const Shape& shape) {
  Tensor out = Tensor::allocate(t.type(), shape);
  const size_t from = t.count() ? storage_bytes(t.type(), static_cast<size_t>(t.count())) : 0;
  if (t.type() == DataType::kString) {
    std::fill(out.mutable_strings().begin(), out.mutable_strings().end(), "a b");
  } else {
    for (size_t i = 0; i < out.bytes(); ++i) out.mutable_raw()[i] = from ? t.raw()[i % from] : std::byte{0};
  }
  return out;
}

// Each input with each of its sizes changed, of other ranks, and all inputs with a size that they share changed.
std::vector<std::vector<Tensor>> changed(const std::vector<Tensor>& inputs) {
  std::vector<std::vector<Tensor>> all{inputs};
  std::set<int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const auto add = [&](const Shape& shape) {
      all.push_back(inputs);
      all.back()[i] = with_shape(inputs[i], shape);
    };
    const Shape shape = inputs[i].shape();
    for (const Shape& other : {Shape{}, Shape{0}, Shape{1}, Shape{2}, Shape{0, 0}, Shape{1, 1, 1, 1, 1}}) add(other);
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      sizes.insert(shape[axis]);
      for (const int64_t size : {int64_t{0}, int64_t{1}, shape[axis] - 1, shape[axis] + 1}) {
        if (size < 0) continue;
        Shape other = shape;
        other[axis] = size;
        add(other);
      }
    }
  }
  for (const int64_t size : sizes)
    for (const int64_t other : {int64_t{0}, int64_t{1}, size + 1}) {
      all.push_back(inputs);
      for (Tensor& t : all.back()) {
        if (!t.defined()) continue;
        Shape shape = t.shape();
        std::replace(shape.begin(), shape.end(), size, other);
        t = with_shape(t, shape);
      }
    }
  return all;
}

std::string described(const std::vector<Tensor>& inputs) {
  std::string text;
  for (const Tensor& t : inputs) text += t.defined() ? t.shape().to_string() + ' ' : "- ";
  return text;
}

// What differs from the inferred shape; empty if nothing does, or if it is refused.
std::string difference_from_inferred(const EdgeCase& c, const std::vector<Tensor>& inputs, size_t first_constant) {
  Graph graph;
  std::vector<Value*> values;
  std::vector<Datum> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    data.emplace_back(inputs[i]);
    if (!inputs[i].defined()) {
      values.push_back(nullptr);
    } else if (i >= first_constant) {
      values.push_back(graph.add_constant(inputs[i]));
    } else {
      Dims dims;
      for (const int64_t size : inputs[i].shape()) dims.emplace_back(size);
      values.push_back(graph.add_input(fmt::format("i{}", i), ValueType::of(inputs[i].type(), dims)));
    }
  }
  Node* node = graph.add_node(c.node->domain(), c.node->type(), values, c.node->output_count(), c.node->attributes());
  bool inferred = true;
  try {
    const Inference inference(graph, c.model.opset_imports);
  } catch (const Error&) {
    inferred = false;
  }
  std::vector<Datum> outputs;
  try {
    outputs = evaluate(*node, c.opset, std::move(data));
  } catch (const Error&) {
    return {};
  }
  for (size_t i = 0; inferred && i < outputs.size(); ++i) {
    if (!outputs[i].defined() || outputs[i].kind() != Datum::Kind::kTensor) continue;
    const Shape& shape = outputs[i].tensor().shape();
    const auto& dims = node->output(i)->tensor_type().shape;
    bool same = !dims || dims->size() == shape.rank();
    for (size_t axis = 0; same && dims && axis < shape.rank(); ++axis)
      same = !(*dims)[axis].constant() || (*dims)[axis].is(shape[axis]);
    if (!same) return fmt::format("output {}: {}, inferred {}", i, shape.to_string(), to_string(*dims));
  }
  return {};
}

class Edge : public ::testing::TestWithParam<EdgeRow> {};

TEST_P(Edge, AnErrorOrTheInferredShape) {
  const EdgeCase c = read(GetParam());
  EXPECT_NO_THROW(evaluate(*c.node, c.opset, std::vector<Datum>(c.inputs.begin(), c.inputs.end())));
  for (const std::vector<Tensor>& inputs : changed(c.inputs))
    for (const size_t first_constant : {~size_t{0}, size_t{1}}) {
      SCOPED_TRACE(described(inputs) + (first_constant == 1 ? "constant" : ""));
      EXPECT_NO_THROW(EXPECT_EQ(difference_from_inferred(c, inputs, first_constant), ""));
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, Edge, ::testing::ValuesIn(edge_rows()));

TEST(EdgeRows, HaveEveryOperatorOfTensors) {
  std::set<std::pair<std::string, std::string>> rows;
  for (const EdgeRow& row : edge_rows()) {
    const EdgeCase c = read(row);
    rows.emplace(c.node->domain(), c.node->type());
  }
  // With bodies, or of sequences and optionals: tests of their own.
  const std::set<std::string_view> others{"If",
                                          "Loop",
                                          "Scan",
                                          "SequenceMap",
                                          "SequenceAt",
                                          "SequenceConstruct",
                                          "SequenceEmpty",
                                          "SequenceErase",
                                          "SequenceInsert",
                                          "SequenceLength",
                                          "SplitToSequence",
                                          "ConcatFromSequence",
                                          "Optional",
                                          "OptionalGetElement",
                                          "OptionalHasElement",
                                          "Constant"};
  for (const OpDef& op : all_ops())
    if (!others.contains(op.type)) {
      EXPECT_TRUE(rows.contains({std::string(op.domain), std::string(op.type)})) << op.domain << ' ' << op.type;
    }
}

}  // namespace
}  // namespace attune::testing
