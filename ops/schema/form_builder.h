// What the forms of other domains' attentions share.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ops/schema/body_builder.h"
#include "ops/support/attention_inputs.h"

namespace attune {

// Builds the body of a function that stands for `node`: standard operators around one ai.attune::Attention.
class FormBuilder : public BodyBuilder {
 public:
  // Adds an input to `body` for each input position of `node`.
  FormBuilder(const Node& node, int64_t opset, Graph& body);

  const Node& node() const { return node_; }
  // The function's input at position i; null where the node leaves it out.
  Value* in(size_t i) const { return node_.input(i) ? graph_inputs_.at(i) : nullptr; }
  bool wants(size_t output) const { return node_.output(output) != nullptr; }
  int rank(size_t input) const { return node_.input(input) ? node_.input(input)->tensor_type().rank() : -1; }
  Dim dim_of(size_t input, int axis) const { return node_.input(input)->tensor_type().dim(axis); }
  DataType type(size_t input) const {
    return node_.input(input) ? node_.input(input)->element_type() : DataType::kUndefined;
  }
  // Throws Error(kUnsupported) with the reason.
  [[noreturn]] void refuse(std::string reason) const;
  void refuse_if(bool condition, std::string_view reason) const {
    if (condition) refuse(std::string(reason));
  }
  void expect_rank(size_t input, std::initializer_list<int> ranks, std::string_view name) const;

  // An attribute that must be positive.
  int64_t positive(std::string_view attribute) const;
  // Sets the attribute scale; 0 stands for 1/sqrt(E) in com.microsoft's operators.
  void set_scale();

  // The parts of x along its last axis of these sizes (each of rank 1, one element).
  std::vector<Value*> split_last(Value* x, const std::vector<Value*>& sizes);
  Value* slice(Value* x, Value* begin, Value* end, int64_t axis);
  // (B, T, n * width) as (B, n, T, width).
  Value* split_heads(Value* x, int64_t heads);

  // Inputs of the Attention; set before attention().
  Value*& operand(AttentionInput i) { return operands_[i]; }
  Attributes& attributes() { return attributes_; }
  // The node; its outputs are those of the operator.
  Node* attention();

 private:
  const Node& node_;
  std::vector<Value*> graph_inputs_;
  std::array<Value*, kAttentionInputs> operands_{};
  Attributes attributes_;
};

// Give the values of the outputs of the node (null: not wanted).
std::vector<Value*> build_standard_attention_form(FormBuilder& b);
std::vector<Value*> build_microsoft_attention_form(FormBuilder& b);   // Attention, QAttention
std::vector<Value*> build_multi_head_attention_form(FormBuilder& b);  // and DecoderMaskedMultiHeadAttention
std::vector<Value*> build_group_query_attention_form(FormBuilder& b);
std::vector<Value*> build_rotary_embedding_form(FormBuilder& b);
std::vector<Value*> build_attn_lstm_form(FormBuilder& b);

// Rotary position embedding (Su et al., "RoFormer", 2021) of x (B, T, n, E) at positions (B, T): pairs (i, R/2 + i),
// or (2i, 2i + 1) if interleaved, of the first R numbers turn by the angles of row `position` of the caches (M, R/2).
struct RotaryCaches {
  Value *cos, *sin;
  bool interleaved;
};
Value* rotate(BodyBuilder& b, Value* x, Value* positions, const RotaryCaches& caches);

}  // namespace attune
