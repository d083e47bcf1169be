// ai.onnx::Attention (23, 24, 25 and newer).
#include <fmt/format.h>

#include <limits>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };

// Whether the softmax is computed as precisely as ours, or more precisely than asked for.
void check_precision(const FormBuilder& b, DataType type) {
  const auto asked = static_cast<DataType>(b.node().attr_int("softmax_precision", 0));
  if (asked == DataType::kUndefined || asked == type || (asked == DataType::kFloat && type != DataType::kDouble))
    return;
  b.refuse(fmt::format("softmax_precision {} with {} operands isn't computed the same", name(asked), name(type)));
}

// A mask shorter than the keys excludes the rest (from opset 24 on): pads it where its size isn't known to be right.
Value* padded_mask(FormBuilder& b, Value* mask, Value* key_length) {
  if (b.opset() < 24) return mask;
  const int rank = b.rank(kMask);
  if (rank < 0) b.refuse("the rank of attn_mask isn't known");
  if (rank == 0) return mask;
  const int length_axis = b.rank(kKey) - 2;
  const Dim past = b.in(kPastKey) ? b.dim_of(kPastKey, 2) : Dim(0);
  if (b.dim_of(kMask, -1) == past + b.dim_of(kKey, length_axis)) return mask;
  Value* missing = b.op("Max", {b.sub(key_length, b.dim(mask, rank - 1)), b.integer(0)});
  std::vector<Value*> pads{b.ints(std::vector<int64_t>(static_cast<size_t>(2 * rank - 1), 0)), b.as_list(missing)};
  const DataType type = b.type(kMask);
  Value* excluded = type == DataType::kBool ? b.tensor(Tensor::scalar(false))
                                            : b.number(-std::numeric_limits<double>::infinity(), type);
  Value* padded = b.op("Pad", {mask, b.concat(pads, 0), excluded});
  return padded;
}

}  // namespace

std::vector<Value*> build_standard_attention_form(FormBuilder& b) {
  const Node& node = b.node();
  b.expect_rank(kQuery, {3, 4}, "Q");
  b.expect_rank(kKey, {3, 4}, "K");
  b.expect_rank(kValue, {3, 4}, "V");
  const DataType type = b.type(kQuery), value_type = b.type(kValue);
  b.refuse_if(!is_float(type) || !is_float(value_type), "an element type isn't known");
  b.refuse_if(b.type(kKey) != type, "K has another type than Q");
  check_precision(b, type);
  const float scale = node.attr_float("scale", 0);
  b.refuse_if(!(scale >= 0), "the scale is negative or NaN");
  const float softcap = node.attr_float("softcap", 0);
  b.refuse_if(softcap < 0, "the softcap is negative");
  const auto as_query = [&](Value* v, DataType from) { return v && from != type ? b.cast(v, type) : v; };

  b.operand(kAttentionQuery) = b.in(kQuery);
  b.operand(kAttentionKey) = b.in(kKey);
  b.operand(kAttentionValue) = as_query(b.in(kValue), value_type);
  b.operand(kAttentionPastKey) = b.in(kPastKey);
  b.operand(kAttentionPastValue) = as_query(b.in(kPastValue), value_type);
  Value* key_length = b.dim(b.in(kKey), b.rank(kKey) - 2);
  if (b.in(kPastKey)) key_length = b.add(key_length, b.dim(b.in(kPastKey), 2));
  if (Value* mask = b.in(kMask)) {
    const DataType mask_type = b.type(kMask);
    b.refuse_if(mask_type == DataType::kUndefined, "the type of attn_mask isn't known");
    b.refuse_if(is_integer(mask_type), "attn_mask is an integer tensor: whether it adds or excludes isn't defined");
    mask = padded_mask(b, mask, key_length);
    b.operand(kAttentionMask) = mask_type == DataType::kBool ? mask : as_query(mask, mask_type);
  }
  const bool causal = node.attr_int("is_causal", 0) != 0;
  const std::vector<int64_t> window{node.attr_int("left_window_size", -1), node.attr_int("right_window_size", -1)};
  const bool windowed = window[0] >= 0 || window[1] >= 0;
  if (Value* lengths = b.in(kLengths)) {
    b.operand(kAttentionKeyLengths) = lengths;
    if (causal || windowed)
      b.operand(kAttentionQueryPosition) = b.sub(lengths, b.dim(b.in(kQuery), b.rank(kQuery) - 2));
  }
  if (b.rank(kQuery) == 3) b.attributes()["num_heads"] = node.attr_int("q_num_heads", 1);
  if (b.rank(kKey) == 3) b.attributes()["num_kv_heads"] = node.attr_int("kv_num_heads", 1);
  if (node.has("scale")) b.attributes()["scale"] = scale;
  if (softcap > 0) b.attributes()["softcap"] = softcap;
  if (causal) b.attributes()["causal"] = int64_t{1};
  if (windowed) b.attributes()["window"] = window;
  if (b.wants(3)) {
    constexpr std::string_view kModes[] = {"raw", "capped", "biased", "normalized"};
    const int64_t mode = node.attr_int("qk_matmul_output_mode", 0);
    b.refuse_if(mode < 0 || mode > 3, "qk_matmul_output_mode isn't 0 to 3");
    b.attributes()["weights_output"] = std::string(kModes[mode]);
  }
  const Node* attention = b.attention();
  Value* present_value = attention->output(kAttentionPresentValue);
  if (value_type != type) present_value = b.cast(present_value, value_type);
  return {attention->output(kAttentionContext), attention->output(kAttentionPresentKey), present_value,
          attention->output(kAttentionWeights)};
}

}  // namespace attune
