#include "ops/schema/attention_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

using FormFunction = std::vector<Value*> (*)(FormBuilder&);

FormFunction find_form(const Node& node) {
  if (node.is("Attention")) return build_standard_attention_form;
  if (node.domain() != "com.microsoft") return nullptr;
  if (node.type() == "Attention" || node.type() == "QAttention") return build_microsoft_attention_form;
  if (node.type() == "MultiHeadAttention" || node.type() == "DecoderMaskedMultiHeadAttention")
    return build_multi_head_attention_form;
  if (node.type() == "GroupQueryAttention") return build_group_query_attention_form;
  if (node.type() == "RotaryEmbedding") return build_rotary_embedding_form;
  if (node.type() == "AttnLSTM") return build_attn_lstm_form;
  return nullptr;
}

}  // namespace

FormBuilder::FormBuilder(const Node& node, int64_t opset, Graph& body) : BodyBuilder(body, opset), node_(node) {
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* v = node.input(i);
    graph_inputs_.push_back(body.add_input(fmt::format("input{}", i), v ? v->type() : ValueType()));
  }
}

void FormBuilder::refuse(std::string reason) const { throw Error(Error::Kind::kUnsupported, std::move(reason)); }

void FormBuilder::expect_rank(size_t input, std::initializer_list<int> ranks, std::string_view name) const {
  const int got = rank(input);
  if (std::find(ranks.begin(), ranks.end(), got) != ranks.end()) return;
  refuse(got < 0 ? fmt::format("the rank of {} isn't known", name) : fmt::format("{} has rank {}", name, got));
}

int64_t FormBuilder::positive(std::string_view attribute) const {
  const int64_t value = node_.attr_int(attribute, 0);
  if (value <= 0) refuse(fmt::format("attribute {} isn't positive", attribute));
  return value;
}

void FormBuilder::set_scale() {
  const float scale = node_.attr_float("scale", 0);
  refuse_if(!(scale >= 0), "the scale is negative or NaN");
  if (scale > 0) attributes_["scale"] = scale;
}

Value* FormBuilder::split_heads(Value* x, int64_t heads) {
  Value* width = div(dim(x, 2), integer(heads));
  Value* target = concat({ints({0, 0, heads}), as_list(width)}, 0);
  return transpose(op("Reshape", {x, target}), {0, 2, 1, 3});
}

Value* FormBuilder::slice(Value* x, Value* begin, Value* end, int64_t axis) {
  return op("Slice", {x, begin, end, ints({axis})});
}

std::vector<Value*> FormBuilder::split_last(Value* x, const std::vector<Value*>& sizes) {
  std::vector<Value*> parts;
  Value* begin = ints({0});
  for (Value* size : sizes) {
    Value* end = add(begin, size);
    parts.push_back(slice(x, begin, end, -1));
    begin = end;
  }
  return parts;
}

Node* FormBuilder::attention() {
  std::vector<Value*> inputs(operands_.begin(), operands_.end());
  while (!inputs.back()) inputs.pop_back();
  return graph().add_node("ai.attune", "Attention", std::move(inputs), kAttentionWeights + 1, attributes_);
}

bool has_attention_form(const Node& node) { return find_form(node) != nullptr; }

std::optional<Function> attention_form(const Node& node, int64_t opset) {
  const FormFunction build = find_form(node);
  if (!build) return std::nullopt;
  if (opset < 13)
    throw Error(Error::Kind::kUnsupported, fmt::format("the form needs opset 13 or newer, the model has {}", opset));
  Function f;
  f.domain = "ai.attune.form";
  f.name = node.type();
  f.opset_imports = {{"", opset}, {"ai.attune", 1}};
  f.body = std::make_shared<Graph>();
  FormBuilder b(node, opset, *f.body);
  std::vector<Value*> outputs = build(b);
  outputs.resize(node.output_count());
  for (Value* output : outputs) f.body->add_output(output ? output : b.integer(0));
  f.body->erase_unused();
  return f;
}

}  // namespace attune
