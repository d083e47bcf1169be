#include "ops/schema/schemas.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <mutex>

#include "graph/io/writer.h"
#include "ops/schema/attention_body.h"
#include "ops/schema/attention_schema.h"
#include "ops/schema/other_bodies.h"

namespace attune {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

constexpr const char* kDomain = "ai.attune";
// The standard opsets for which bodies are registered: each serves models up to the next.
constexpr int kOpsets[] = {13, 18, 23};

using BodyBuilderFunction = std::vector<Value*> (*)(const Node&, int64_t, Graph&, const BodyOptions&);

template <std::vector<Value*> (*Build)(const Node&, int64_t, Graph&)>
std::vector<Value*> without_options(const Node& node, int64_t opset, Graph& body, const BodyOptions&) {
  return Build(node, opset, body);
}

BodyBuilderFunction find_body(std::string_view type) {
  if (type == "Attention") return build_attention_body;
  if (type == "Linear") return without_options<build_linear_body>;
  if (type == "ResidualNormalization") return without_options<build_residual_normalization_body>;
  if (type == "PositionEmbedding") return without_options<build_position_embedding_body>;
  if (type == "RelativePositionBias") return without_options<build_relative_position_bias_body>;
  return nullptr;
}

const std::vector<std::string> kFloats{"tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"};

void infer_linear(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  if (!onnx::hasInputShape(ctx, 0)) return;
  onnx::TensorShapeProto shape = onnx::getInputShape(ctx, 0);
  if (shape.dim_size() == 0) fail_shape_inference("Linear: x is a scalar");
  auto* last = shape.mutable_dim(shape.dim_size() - 1);
  last->Clear();
  const auto* transposed = ctx.getAttribute("transposed");
  if (onnx::hasInputShape(ctx, 1) && onnx::getInputShape(ctx, 1).dim_size() == 2)
    *last = onnx::getInputShape(ctx, 1).dim(transposed && transposed->i() != 0 ? 0 : 1);
  onnx::updateOutputShape(ctx, 0, shape);
}

void infer_residual_normalization(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, i);
    if (onnx::hasInputShape(ctx, 0)) onnx::propagateShapeFromInputToOutput(ctx, 0, i);
  }
}

void infer_position_embedding(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  if (onnx::hasInputShape(ctx, 0)) onnx::propagateShapeFromInputToOutput(ctx, 0, 0);
}

void infer_relative_position_bias(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  onnx::TensorShapeProto shape;
  shape.add_dim()->set_dim_value(1);
  auto* heads = shape.add_dim();
  if (onnx::hasInputShape(ctx, 0) && onnx::getInputShape(ctx, 0).dim_size() == 2)
    *heads = onnx::getInputShape(ctx, 0).dim(1);
  shape.add_dim();
  shape.add_dim();
  onnx::updateOutputShape(ctx, 0, shape);
}

OpSchema linear_schema() {
  OpSchema s;
  s.SetName("Linear").SetDomain(kDomain).SinceVersion(1);
  s.SetDoc("y = activation(x w + bias) + residual");
  s.Attr("activation", "none, relu, gelu, gelu_tanh, silu, tanh or sigmoid", AttributeProto::STRING,
         std::string("none"));
  s.Attr("transposed", "1: w is (out, in)", AttributeProto::INT, int64_t{0});
  s.Input(0, "x", "(..., in)", "T");
  s.Input(1, "w", "(in, out), or (out, in) if transposed", "W");
  s.Input(2, "bias", "(out)", "T", OpSchema::Optional);
  s.Input(3, "residual", "Broadcastable to (..., out)", "T", OpSchema::Optional);
  s.Output(0, "y", "(..., out)", "T");
  s.TypeConstraint("T", kFloats, "Floating-point types");
  s.TypeConstraint("W", kFloats, "The type of x; beside float also float16 or bfloat16");
  s.TypeAndShapeInferenceFunction(infer_linear);
  return s;
}

OpSchema residual_normalization_schema() {
  OpSchema s;
  s.SetName("ResidualNormalization").SetDomain(kDomain).SinceVersion(1);
  s.SetDoc(
      "Normalises sum = x + residual over the axes from `axis` on, then multiplies by scale and adds bias. Statistics "
      "are "
      "float32 at least.");
  s.Attr("kind", "layer: (sum - mean) / sqrt(variance + epsilon); rms: sum / sqrt(mean of squares + epsilon)",
         AttributeProto::STRING, std::string("layer"));
  s.Attr("epsilon", "Added to the variance", AttributeProto::FLOAT, 1e-5f);
  s.Attr("axis", "The first axis that is normalised", AttributeProto::INT, int64_t{-1});
  s.Input(0, "x", "The states", "T");
  s.Input(1, "residual", "Added to x", "T", OpSchema::Optional);
  s.Input(2, "scale", "Broadcastable to x", "T", OpSchema::Optional);
  s.Input(3, "bias", "Broadcastable to x", "T", OpSchema::Optional);
  s.Output(0, "y", "As x", "T");
  s.Output(1, "sum", "x + residual", "T", OpSchema::Optional);
  s.TypeConstraint("T", kFloats, "Floating-point types");
  s.TypeAndShapeInferenceFunction(infer_residual_normalization);
  return s;
}

OpSchema position_embedding_schema() {
  OpSchema s;
  s.SetName("PositionEmbedding").SetDomain(kDomain).SinceVersion(1);
  s.SetDoc(
      "y = scale x + table[row], where the row of state t is offset + start + t. With `tokens`, padding doesn't count: "
      "the row is offset + token (start + sum of the tokens up to it), of the last T columns of tokens. A row outside "
      "of the table is an error; negative ones count from its end.");
  s.Attr("scale", "Multiplies x", AttributeProto::FLOAT, 1.0f);
  s.Attr("offset", "The row of position 0; with tokens, the row of padding", AttributeProto::INT, int64_t{0});
  s.Input(0, "x", "States (..., T, D), as they come from the table of words", "T");
  s.Input(1, "table", "(rows, D), learned or sinusoidal", "T");
  s.Input(2, "start", "Scalar, or one element: the position of state 0; left out: 0", "tensor(int64)",
          OpSchema::Optional);
  s.Input(3, "tokens",
          "(batch, T or more): 1 where there is a token, 0 for padding; batch: all but the last two axes "
          "of x",
          "tensor(int64)", OpSchema::Optional);
  s.Output(0, "y", "As x", "T");
  s.TypeConstraint("T", kFloats, "Floating-point types");
  s.TypeAndShapeInferenceFunction(infer_position_embedding);
  return s;
}

OpSchema relative_position_bias_schema() {
  OpSchema s;
  s.SetName("RelativePositionBias").SetDomain(kDomain).SinceVersion(1);
  s.SetDoc(
      "The position bias of T5: each distance from query to key falls into a bucket, whose row of the table is the "
      "bias of "
      "each head. Half of the buckets (of a side) hold one distance each, the others grow logarithmically up to "
      "max_distance.");
  s.Attr("max_distance", "Distances from here on share the last bucket", AttributeProto::INT, int64_t{128});
  s.Attr("bidirectional", "1: half of the buckets are for keys after the query; 0: those count as distance 0",
         AttributeProto::INT, int64_t{1});
  s.Input(0, "table", "(buckets, H)", "T");
  s.Input(1, "query_length", "Scalar, or one element", "tensor(int64)");
  s.Input(2, "key_length", "Scalar, or one element", "tensor(int64)");
  s.Input(3, "offset", "Position of query 0 on the key axis; left out: 0", "tensor(int64)", OpSchema::Optional);
  s.Output(0, "bias", "(1, H, query_length, key_length)", "T");
  s.TypeConstraint("T", kFloats, "Floating-point types");
  s.TypeAndShapeInferenceFunction(infer_relative_position_bias);
  return s;
}

// --- from ONNX's view of a node to ours

ValueType value_type(const onnx::TypeProto* type) {
  if (!type || !type->has_tensor_type()) return {};
  const auto& tensor = type->tensor_type();
  std::optional<Dims> dims;
  if (tensor.has_shape()) {
    dims.emplace();
    for (const auto& d : tensor.shape().dim())
      dims->push_back(d.has_dim_value() ? Dim(d.dim_value()) : d.has_dim_param() ? Dim::parse(d.dim_param()) : Dim());
  }
  return ValueType::of(static_cast<DataType>(tensor.elem_type()), dims);
}

std::optional<Attribute> attribute_value(const AttributeProto& a) {
  switch (a.type()) {
    case AttributeProto::INT:
      return Attribute(int64_t{a.i()});
    case AttributeProto::FLOAT:
      return Attribute(a.f());
    case AttributeProto::STRING:
      return Attribute(a.s());
    case AttributeProto::INTS:
      return Attribute(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    default:
      return std::nullopt;
  }
}

// The node that `context` describes, in a graph of its own.
Node* node_of(const onnx::FunctionBodyBuildContext& context, const OpSchema& schema, Graph& graph) {
  std::vector<Value*> inputs;
  for (int i = 0; i < static_cast<int>(schema.inputs().size()); ++i)
    inputs.push_back(context.hasInput(i) ? graph.add_input(fmt::format("i{}", i), value_type(context.getInputType(i)))
                                         : nullptr);
  Attributes attributes;
  for (const auto& [name, unused] : schema.attributes())
    if (const auto* a = context.getAttribute(name))
      if (auto value = attribute_value(*a)) attributes.emplace(name, std::move(*value));
  size_t outputs = schema.outputs().size();
  while (outputs > 1 && !context.hasOutput(static_cast<int>(outputs) - 1)) --outputs;
  return graph.add_node(kDomain, schema.Name(), std::move(inputs), outputs, std::move(attributes));
}

void to_proto(Function function, onnx::FunctionProto& proto) {
  Model model;
  model.ir_version = 10;
  model.opset_imports = function.opset_imports;
  model.functions.push_back(std::move(function));
  onnx::ModelProto holder;
  holder.ParseFromString(serialize_model(model));
  proto = holder.functions(0);
}

Function build(const Node& node, int64_t opset, const OpSchema& schema, const BodyOptions& options = {}) {
  Function f;
  f.domain = kDomain;
  f.name = node.type();
  f.opset_imports = {{"", opset}};
  f.body = std::make_shared<Graph>();
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* v = node.input(i);
    f.body->add_input(schema.inputs().at(i).GetName(), v ? v->type() : ValueType());
  }
  const auto outputs = find_body(node.type())(node, opset, *f.body, options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i]->set_name(schema.outputs().at(i).GetName());
    f.body->add_output(outputs[i]);
  }
  f.body->erase_unused();
  return f;
}

void add_body(OpSchema& schema) {
  for (const int opset : kOpsets) {
    schema.SetContextDependentFunctionBodyBuilder(
        [opset](const onnx::FunctionBodyBuildContext& context, const OpSchema& s, onnx::FunctionProto& proto) {
          try {
            Graph graph;
            to_proto(build(*node_of(context, s, graph), opset, s), proto);
            return true;
          } catch (const Error& e) {
            if (e.kind() == Error::Kind::kInternal) throw;
            return false;
          }
        },
        opset);
  }
}

}  // namespace

void register_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& versions = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    if (!versions.Map().contains(kDomain)) versions.AddDomainToVersion(kDomain, 1, 1);
    for (OpSchema schema : {attention_schema(), linear_schema(), residual_normalization_schema(),
                            position_embedding_schema(), relative_position_bias_schema()}) {
      add_body(schema);
      onnx::RegisterSchema(std::move(schema));
    }
  });
}

Function function_body(const Node& node, int64_t opset, const BodyOptions& options) {
  return within([&] { return node.label(); },
                [&] {
                  register_schemas();
                  const OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.type(), 1, node.domain());
                  if (node.domain() != kDomain || !schema || !find_body(node.type()))
                    throw Error(Error::Kind::kUnsupported,
                                fmt::format("{} of domain '{}' has no function body", node.type(), node.domain()));
                  if (opset < kOpsets[0])
                    throw Error(
                        Error::Kind::kUnsupported,
                        fmt::format("function bodies need opset {} or newer, the model has {}", kOpsets[0], opset));
                  return build(node, opset, *schema, options);
                });
}

}  // namespace attune
