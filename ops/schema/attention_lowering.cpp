#include "ops/schema/attention_lowering.h"

#include <fmt/format.h>

#include <limits>

#include "ops/schema/attention_body_base.h"

namespace attune {
namespace {

class AttentionLowering : AttentionBodyBase {
 public:
  AttentionLowering(const Node& node, int64_t opset, Graph& body) : AttentionBodyBase(node, opset, body) { check(); }

  std::vector<Value*> build() {
    project_states();
    bool split = query_rank_ != 3 || key_rank_ != 3 || value_rank_ != 3;
    if (config_.score == AttentionScore::kGeneral) split = true;
    if (split) {
      if (query_rank_ == 3) query_ = split_heads(query_, heads_);
      if (key_rank_ == 3) key_ = split_heads(key_, kv_heads_);
      if (value_rank_ == 3) value_ = split_heads(value_, kv_heads_);
    }
    // 16-bit products would be rounded to T.
    query_ = wide(query_), key_ = wide(key_), value_ = wide(value_);
    if (config_.score == AttentionScore::kGeneral) query_ = b_.matmul(query_, wide(inputs_[kAttentionScoreWeight]));
    const int length_axis = split ? 2 : 1;
    query_length_ = b_.dim(query_, length_axis);
    key_length_ = b_.dim(key_, length_axis);
    if (inputs_[kAttentionPastKey]) key_length_ = b_.add(key_length_, b_.dim(inputs_[kAttentionPastKey], 2));
    Attributes attributes = split ? Attributes{} : head_counts();
    set_scale(attributes, split ? 3 : 2);
    if (config_.softcap > 0) attributes["softcap"] = config_.softcap;
    Value* mask = build_mask(attributes);
    return outputs(attend(mask, std::move(attributes)), split);
  }

 private:
  bool wants(AttentionOutput output) const { return node_.output(output) != nullptr; }

  void check() const {
    if (config_.score == AttentionScore::kAdditive) refuse("its score is additive");
    if (config_.alignment != AttentionAlignment::kSoft) refuse("its alignment isn't soft");
    if (config_.scale && *config_.scale == 0) refuse("ONNX Runtime refuses a scale of 0");
    const bool shows_scores = wants(kAttentionWeights) && config_.weights != AttentionWeights::kNormalized &&
                              config_.weights != AttentionWeights::kHeadMean;
    // A constant for all keys changes no softmax, unless the cap comes after it.
    if (inputs_[kAttentionScoreBias] && (config_.softcap > 0 || shows_scores))
      refuse("a constant is added to its scores");
    if (wants(kAttentionWeights) && config_.weights == AttentionWeights::kRaw && config_.softcap > 0)
      refuse("hosts give the capped scores for the raw ones");
    const bool limits =
        inputs_[kAttentionKeyLengths] || config_.causal || config_.window_left >= 0 || config_.window_right >= 0;
    const bool excludes = limits || inputs_[kAttentionMask];
    if (wants(kAttentionWeights) && config_.weights == AttentionWeights::kBiased && (limits || has_bool_mask()))
      refuse("ONNX Runtime shows excluded scores as the lowest number");
    if (config_.mean_of_empty_rows && excludes) refuse("its empty rows give the mean of the values");
  }

  Attributes head_counts() const {
    const int64_t heads = config_.num_heads > 0 ? config_.num_heads : 1;
    int64_t kv_heads = config_.num_kv_heads;
    if (kv_heads == 0 && inputs_[kAttentionPastKey]) {
      const auto known = node_.input(kAttentionPastKey)->tensor_type().dim(1).constant();
      if (!known) refuse("the number of key/value heads isn't known");
      kv_heads = *known;
    }
    return {{"q_num_heads", heads}, {"kv_num_heads", kv_heads > 0 ? kv_heads : heads}};
  }

  void set_scale(Attributes& attributes, int64_t width_axis) {
    if (config_.score != AttentionScore::kScaledDot) {
      attributes["scale"] = 1.0F;
    } else if (type_ == DataType::kDouble) {
      // Hosts take the root of the scale in float32.
      Value* width = b_.dim(query_, width_axis);
      if (width_axis == 2) width = b_.div(width, heads_);
      Value* scale = config_.scale ? number(static_cast<double>(*config_.scale))
                                   : b_.div(number(1), b_.op("Sqrt", {b_.cast(width, wide_)}));
      query_ = b_.mul(query_, scale);
      attributes["scale"] = 1.0F;
    } else if (config_.scale) {
      attributes["scale"] = *config_.scale;
    }
  }

  // True if there are as many new keys as queries, so that a single query has nothing after it.
  bool is_square() const {
    const Value* key = node_.input(kAttentionKey);
    const Value* query = node_.input(kAttentionQuery);
    if (!key || key == query) return true;
    return query->tensor_type().dim(query_rank_ - 2) == key->tensor_type().dim(key_rank_ - 2);
  }

  // The mask with everything in it that the attributes don't say, written out over queries and keys; null: none.
  Value* build_mask(Attributes& attributes) {
    const bool plain = !inputs_[kAttentionQueryPosition] && is_square();
    const bool windowed = config_.window_left >= 0 || config_.window_right >= 0;
    const bool causal_attribute = config_.causal && plain;
    const bool window_attribute = windowed && plain && b_.opset() >= 25;
    if (causal_attribute) attributes["is_causal"] = int64_t{1};
    if (window_attribute) {
      attributes["left_window_size"] = config_.window_left;
      attributes["right_window_size"] = config_.window_right;
    }
    Value* seen = visible(query_length_, b_.range(key_length_),
                          {.lengths = true, .causal = !causal_attribute, .window = !window_attribute});
    Value* mask = inputs_[kAttentionMask];
    if (mask && has_float_mask()) {
      mask = wide(mask);
      if (seen) mask = b_.where(seen, mask, number(-std::numeric_limits<double>::infinity()));
    } else {
      mask = b_.both(mask, seen);
    }
    if (!mask) return nullptr;
    return b_.op("Expand", {mask, b_.concat({b_.as_list(query_length_), b_.as_list(key_length_)}, 0)});
  }

  Node* attend(Value* mask, Attributes attributes) {
    const auto past = [&](AttentionInput i) { return inputs_[i] ? wide(inputs_[i]) : nullptr; };
    constexpr std::pair<AttentionWeights, int64_t> kModes[] = {{AttentionWeights::kRaw, 0},
                                                               {AttentionWeights::kCapped, 1},
                                                               {AttentionWeights::kBiased, 2},
                                                               {AttentionWeights::kNormalized, 3},
                                                               {AttentionWeights::kHeadMean, 3}};
    for (const auto& [weights, mode] : kModes)
      if (wants(kAttentionWeights) && weights == config_.weights) attributes["qk_matmul_output_mode"] = mode;
    Node* attention =
        b_.node("Attention", {query_, key_, value_, mask, past(kAttentionPastKey), past(kAttentionPastValue)}, 4,
                std::move(attributes));
    if (!wants(kAttentionWeights)) attention->remove_output(3);
    return attention;
  }

  std::vector<Value*> outputs(Node* attention, bool split) {
    Value* context = narrow(attention->output(0));
    if (query_rank_ == 3 && split) context = merge_heads(context);
    Value* weights = attention->output(3);
    if (weights && config_.weights == AttentionWeights::kHeadMean)
      weights = b_.div(b_.reduce_sum(weights, 1), b_.cast(heads_, wide_));
    std::vector<Value*> values{context, nullptr, nullptr, weights ? narrow(weights) : nullptr};
    // Both presents are asked for or neither; ONNX Runtime has no past without a present.
    const bool presents = wants(kAttentionPresentKey) || wants(kAttentionPresentValue) || inputs_[kAttentionPastKey];
    for (size_t i = 1; i < 3; ++i) {
      if (node_.output(i)) values[i] = narrow(attention->output(i));
      if (!presents) attention->remove_output(i);
    }
    values.resize(node_.output_count());
    return values;
  }

  Value *query_length_ = nullptr, *key_length_ = nullptr;
};

}  // namespace

Function lowered_attention(const Node& node, int64_t opset) {
  if (opset < 23) throw Error(Error::Kind::kUnsupported, fmt::format("opset {} has no Attention", opset));
  Function f;
  f.domain = "ai.attune.lowered";
  f.name = node.type();
  f.opset_imports = {{"", opset}};
  f.body = std::make_shared<Graph>();
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* v = node.input(i);
    f.body->add_input(fmt::format("input{}", i), v ? v->type() : ValueType());
  }
  BodyBuilder b(*f.body, opset);
  for (Value* output : AttentionLowering(node, opset, *f.body).build())
    f.body->add_output(output ? output : b.integer(0));
  f.body->erase_unused();
  return f;
}

}  // namespace attune
