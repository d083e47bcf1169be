#include "ops/infer/schema_fallback.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <map>

#include "ops/infer/contents.h"

namespace attune {
namespace {

// ---- our types as protos, and back

void write_tensor_type(const TensorType& type, auto& proto) {
  proto.set_elem_type(static_cast<int32_t>(type.element));
  if (!type.shape) return;
  auto* shape = proto.mutable_shape();
  for (const Dim& d : *type.shape) {
    auto* dim = shape->add_dim();
    if (const auto c = d.constant()) {
      dim->set_dim_value(*c);
    } else if (d.known()) {
      dim->set_dim_param(d.to_string());
    }
  }
}

void write_type(const ValueType& type, onnx::TypeProto& proto) {
  using Kind = ValueType::Kind;
  switch (type.kind) {
    case Kind::kTensor:
      return write_tensor_type(type.tensor, *proto.mutable_tensor_type());
    case Kind::kSparseTensor:
      return write_tensor_type(type.tensor, *proto.mutable_sparse_tensor_type());
    case Kind::kSequence:
      return write_type(*type.element, *proto.mutable_sequence_type()->mutable_elem_type());
    case Kind::kOptional:
      return write_type(*type.element, *proto.mutable_optional_type()->mutable_elem_type());
    case Kind::kMap:
      proto.mutable_map_type()->set_key_type(static_cast<int32_t>(type.key));
      return write_type(*type.element, *proto.mutable_map_type()->mutable_value_type());
    case Kind::kUnknown:
      return;
  }
}

TensorType read_tensor_type(const auto& proto) {
  TensorType out{static_cast<DataType>(proto.elem_type()), std::nullopt};
  if (!proto.has_shape()) return out;
  out.shape.emplace();
  for (const auto& dim : proto.shape().dim())
    out.shape->push_back(dim.has_dim_value() ? Dim(dim.dim_value()) : Dim::parse(dim.dim_param()));
  return out;
}

ValueType read_type(const onnx::TypeProto& proto) {
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType: {
      const TensorType t = read_tensor_type(proto.tensor_type());
      return ValueType::of(t.element, t.shape);
    }
    case onnx::TypeProto::kSparseTensorType:
      return {ValueType::Kind::kSparseTensor, read_tensor_type(proto.sparse_tensor_type()), nullptr,
              DataType::kUndefined};
    case onnx::TypeProto::kSequenceType:
      return ValueType::sequence(read_type(proto.sequence_type().elem_type()));
    case onnx::TypeProto::kOptionalType:
      return ValueType::optional(read_type(proto.optional_type().elem_type()));
    case onnx::TypeProto::kMapType: {
      ValueType out{ValueType::Kind::kMap, {}, nullptr, static_cast<DataType>(proto.map_type().key_type())};
      out.element = std::make_shared<const ValueType>(read_type(proto.map_type().value_type()));
      return out;
    }
    default:
      return {};
  }
}

// ---- our attributes and constants as protos

constexpr int64_t kLargestConstant = 1024;  // elements

void write_tensor(const Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_data_type(static_cast<int32_t>(tensor.type()));
  for (const int64_t d : tensor.shape()) proto.add_dims(d);
  if (tensor.type() == DataType::kString) {
    for (const std::string& s : tensor.strings()) proto.add_string_data(s);
  } else {
    proto.set_raw_data(tensor.raw(), tensor.bytes());
  }
}

void write_contents(const SymbolicTensor& contents, onnx::TensorShapeProto& proto) {
  for (const Dim& d : contents.integers) {
    auto* dim = proto.add_dim();
    if (const auto c = d.constant()) {
      dim->set_dim_value(*c);
    } else if (d.known()) {
      dim->set_dim_param(d.to_string());
    }
  }
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// False for what inference can't be told: graphs and references.
bool write_attribute(const std::string& name, const Attribute& attribute, onnx::AttributeProto& proto) {
  using Proto = onnx::AttributeProto;
  proto.set_name(name);
  const auto list = [&](const auto& values, auto add, Proto::AttributeType type) {
    for (const auto& v : values) add(v);
    proto.set_type(type);
    return true;
  };
  return std::visit(
      Overloaded{[&](int64_t v) { return proto.set_i(v), proto.set_type(Proto::INT), true; },
                 [&](float v) { return proto.set_f(v), proto.set_type(Proto::FLOAT), true; },
                 [&](const std::string& v) { return proto.set_s(v), proto.set_type(Proto::STRING), true; },
                 [&](const Tensor& v) {
                   if (v.count() > kLargestConstant || !v.defined()) return false;
                   return write_tensor(v, *proto.mutable_t()), proto.set_type(Proto::TENSOR), true;
                 },
                 [&](const ValueType& v) {
                   return write_type(v, *proto.mutable_tp()), proto.set_type(Proto::TYPE_PROTO), true;
                 },
                 [&](const std::vector<int64_t>& v) {
                   return list(
                       v, [&](int64_t i) { proto.add_ints(i); }, Proto::INTS);
                 },
                 [&](const std::vector<float>& v) {
                   return list(
                       v, [&](float f) { proto.add_floats(f); }, Proto::FLOATS);
                 },
                 [&](const std::vector<std::string>& v) {
                   return list(
                       v, [&](const std::string& s) { proto.add_strings(s); }, Proto::STRINGS);
                 },
                 [](const auto&) { return false; }},
      attribute);
}

// What ONNX's inference functions take for granted.
void check_signature(const NodeInference& n, const onnx::OpSchema& schema) {
  const auto most = static_cast<size_t>(schema.max_input());
  if (n.input_count() > most) n.fail(fmt::format("{} inputs, at most {} expected", n.input_count(), most));
  for (size_t i = 0; i < schema.inputs().size(); ++i) {
    const bool needed =
        schema.inputs()[i].GetOption() == onnx::OpSchema::Single ||
        (schema.inputs()[i].GetOption() == onnx::OpSchema::Variadic && i < static_cast<size_t>(schema.min_input()));
    if (needed && !n.has(i)) n.fail(fmt::format("input {} is missing", i));
  }
  if (n.output_count() > static_cast<size_t>(schema.max_output()))
    n.fail(fmt::format("{} outputs, at most {} expected", n.output_count(), schema.max_output()));
  for (const auto& [name, attribute] : schema.attributes())
    if (attribute.required && !n.node().has(name)) n.fail(fmt::format("attribute '{}' is missing", name));
}

// ONNX's view of a node.
class SchemaContext : public onnx::InferenceContext {
 public:
  explicit SchemaContext(NodeInference& n)
      : inputs_(n.input_count()), data_(n.input_count()), symbolic_(n.input_count()), outputs_(n.output_count()) {
    for (const auto& [name, attribute] : n.node().attributes())
      if (onnx::AttributeProto proto; write_attribute(name, attribute, proto)) attributes_[name] = std::move(proto);
    for (size_t i = 0; i < n.input_count(); ++i) {
      const Value* value = n.node().input(i);
      if (!value) continue;
      write_type(n.type(i), inputs_[i].emplace());
      const Tensor* constant = value->constant();
      if (constant && constant->defined() && constant->count() <= kLargestConstant)
        write_tensor(*constant, data_[i].emplace());
      if (const SymbolicTensor* c = n.contents(i); c && c->is_integer()) write_contents(*c, symbolic_[i].emplace());
    }
  }

  const onnx::TypeProto& output(size_t i) const { return outputs_[i]; }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    const auto it = attributes_.find(name);
    return it == attributes_.end() ? nullptr : &it->second;
  }
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t i) const override { return find(inputs_, i); }
  const onnx::TensorProto* getInputData(size_t i) const override { return find(data_, i); }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t i) const override { return find(symbolic_, i); }
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t i) override { return &outputs_.at(i); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string&) override { return nullptr; }

 private:
  template <class T>
  static const T* find(const std::vector<std::optional<T>>& list, size_t i) {
    return i < list.size() && list[i] ? &*list[i] : nullptr;
  }

  std::map<std::string, onnx::AttributeProto> attributes_;
  std::vector<std::optional<onnx::TypeProto>> inputs_;
  std::vector<std::optional<onnx::TensorProto>> data_;
  std::vector<std::optional<onnx::TensorShapeProto>> symbolic_;
  std::vector<onnx::TypeProto> outputs_;
};

}  // namespace

void infer_by_schema(NodeInference& n) {
  const Node& node = n.node();
  const auto version = static_cast<int>(std::min<int64_t>(n.opset(), std::numeric_limits<int>::max()));
  const auto* schema = onnx::OpSchemaRegistry::Schema(node.type(), version, node.domain());
  if (!schema || !schema->has_type_and_shape_inference_function()) return;
  if (!node.subgraphs().empty()) return;
  check_signature(n, *schema);
  SchemaContext context(n);
  try {
    schema->GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    n.fail(e.what());
  }
  for (size_t i = 0; i < node.output_count(); ++i) n.set_type(i, read_type(context.output(i)));
}

}  // namespace attune
