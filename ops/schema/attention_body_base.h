// What the function body and the lowering of ai.attune::Attention share: operands in standard operators.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "ops/schema/body_builder.h"
#include "ops/support/attention_config.h"
#include "ops/support/attention_inputs.h"

namespace attune {

class AttentionBodyBase {
 protected:
  // `body` has an input for each input position of `node`. Throws Error(kUnsupported) where types aren't known.
  AttentionBodyBase(const Node& node, int64_t opset, Graph& body);

  [[noreturn]] static void refuse(std::string reason) { throw Error(Error::Kind::kUnsupported, std::move(reason)); }

  // Between T and the type that is computed in.
  Value* wide(Value* x) { return type_ == wide_ ? x : b_.cast(x, wide_); }
  Value* narrow(Value* x) { return type_ == wide_ ? x : b_.cast(x, type_); }
  Value* number(double value) { return b_.number(value, wide_); }

  // Projects and counts heads: sets query_, key_ and value_, of T, as they come (ranks in *_rank_).
  void project_states();
  // (B, T, heads * width) as (B, heads, T, width), and back.
  Value* split_heads(Value* x, Value* heads);
  Value* merge_heads(Value* x);
  // The mask is bool; false also where there is none.
  bool has_bool_mask() const;
  bool has_float_mask() const { return inputs_[kAttentionMask] && !has_bool_mask(); }
  // Positions that lengths, causality and window leave, broadcastable to (B, H, Tq, Tk); null: all. Which of these are
  // asked about is up to the caller.
  struct Conditions {
    bool lengths = true, causal = true, window = true;
  };
  Value* visible(Value* query_length, Value* positions, const Conditions& asked);

  const Node& node_;
  AttentionConfig config_;
  BodyBuilder b_;
  std::array<Value*, kAttentionInputs> inputs_{};
  DataType type_ = DataType::kUndefined, wide_ = DataType::kUndefined;  // T, and what scores are computed in
  int query_rank_ = 0, key_rank_ = 0, value_rank_ = 0;
  Value *heads_ = nullptr, *kv_heads_ = nullptr;
  Value *query_ = nullptr, *key_ = nullptr, *value_ = nullptr;

 private:
  int rank(AttentionInput input) const;
  Value* project(Value* x, Value* w, Value* bias);
  Value* reshape(Value* x, std::vector<Value*> parts);
  Value* count_heads(int64_t given, std::initializer_list<std::pair<Value*, int>> operands, Value* fallback);
  Value* query_start();
};

}  // namespace attune
