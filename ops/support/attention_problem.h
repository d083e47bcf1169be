// One call of an attention kernel: operands with sizes and strides, checked against one another.
//
// Letters as in the operator's documentation: B batch, H query heads, G key/value heads, Tq query length, Tp past
// length, Tn new key length, Tk = Tp + Tn, E width of a query head, Ek of a key head, F of a value head.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/tensor.h"
#include "ops/support/attention_config.h"
#include "ops/support/row_index.h"

namespace attune {

// A (batch, heads, length, width) operand; rows are contiguous, strides count elements.
struct HeadsView {
  const std::byte* data = nullptr;
  int64_t batch = 0, heads = 0, length = 0, width = 0;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  RowIndex index;  // where row b * index_step lies
  int64_t index_step = 1;

  int64_t memory_row(int64_t b, int64_t t) const { return index ? index.at(b * index_step, t) : b; }
  template <class T>
  const T* row(int64_t b, int64_t h, int64_t t) const {
    return reinterpret_cast<const T*>(data) + memory_row(b, t) * batch_stride + h * head_stride + t * row_stride;
  }
  template <class T>
  T* mutable_row(int64_t b, int64_t h, int64_t t) const {
    return const_cast<T*>(row<T>(b, h, t));
  }
};

// A (batch, length, heads * width) tensor seen by heads, or a (batch, heads, length, width) tensor (strided ones
// too, if their rows are contiguous). `what` names the operand in errors.
HeadsView view_heads(const Tensor& tensor, int64_t heads, std::string_view what);

// A mask broadcast to (B, H, Tq, Tk): strides are 0 where it repeats.
struct MaskView {
  const std::byte* data = nullptr;  // null: no mask
  bool boolean = false;             // else of the operands' type, added to the score
  std::array<int64_t, 4> strides{};
  int64_t length = 0;  // positions from here on are excluded
};

// The operands of one attention, as an operator or its standard counterpart gives them. Null: left out.
struct AttentionOperands {
  const Tensor* query = nullptr;  // (B, Tq, H*E) or (B, H, Tq, E), projected
  const Tensor* key = nullptr;    // (B, Tn, G*Ek) or (B, G, Tn, Ek), projected
  const Tensor* value = nullptr;  // (B, Tn, G*F) or (B, G, Tn, F), projected
  const Tensor* mask = nullptr;
  const Tensor* key_lengths = nullptr;
  const Tensor* w_score = nullptr;
  const Tensor* b_score = nullptr;
  const Tensor* position = nullptr;
  const Tensor* query_position = nullptr;
  const Tensor* draw = nullptr;
  const Tensor* memory_rows = nullptr;  // of key and value (see AttentionRowInput)
  const Tensor* past_rows = nullptr;    // of past_key and past_value
  // Of the type of the query; where that is float32, pasts (or keys and values without a past) may be of 16 bits.
  Tensor past_key, past_value;   // undefined: left out; grown in place where nobody else holds them
  bool pads_short_mask = false;  // a mask shorter than Tk excludes the rest (the standard operator from 24 on)
  // The standard operator with lengths: query 0 is at key_lengths - Tq.
  bool queries_end_at_length = false;
  bool may_round = false;  // operands of products to integers
};

// What the products of many queries are of: floats, or operands rounded to words, two products of which are added at
// once (vpmaddwd and vpaddd, or vpdpwssd).
enum class AttentionNumbers { kFloats, kWords, kVnniWords };

struct AttentionProblem {
  const AttentionConfig* config = nullptr;
  DataType type = DataType::kUndefined;         // of all but keys and values
  DataType memory_type = DataType::kUndefined;  // of keys and values: `type`, or 16 bits where that is float32
  int64_t batch = 0, heads = 0, kv_heads = 0;
  int64_t query_length = 0, past_length = 0, key_length = 0;  // Tq, Tp, Tk
  int64_t query_width = 0, key_width = 0, value_width = 0;    // E, Ek, F
  double scale = 1;                                           // 1 but for scaled_dot
  bool split_query = false;                                   // the query came as (B, H, Tq, E)
  HeadsView query;
  // Keys and values in order of time: one or two segments (a past, what is new).
  std::array<HeadsView, 2> keys, values;
  MaskView mask;
  RowIndex past_rows;
  const int64_t* key_lengths = nullptr;     // B values, or null
  const int64_t* query_position = nullptr;  // B values, or null: Tp
  bool queries_end_at_length = false;
  const int64_t* position = nullptr;  // B*H values, or null: 0
  uint32_t draw = 0;
  AttentionNumbers numbers = AttentionNumbers::kFloats;  // see rounded_numbers()
  const std::byte* w_score = nullptr;
  const std::byte* b_score = nullptr;

  // Results; null or without data: not wanted.
  HeadsView context;                 // (B, H, Tq, F), written
  std::byte* weights = nullptr;      // (B, H or 1, Tq, Tk)
  int64_t* next_position = nullptr;  // B*H

  bool rounded() const { return numbers != AttentionNumbers::kFloats; }
  // The position of query 0 on the key axis, within bounds that sums don't overflow.
  int64_t query_start(int64_t b) const {
    constexpr int64_t kFar = int64_t{1} << 60;
    const int64_t start = queries_end_at_length ? key_lengths[b] - query_length
                          : query_position      ? query_position[b]
                                                : past_length;
    return std::clamp(start, -kFar, kFar);
  }
};

// Checks the operands against one another and gives the problem with its sizes, query, masks and vectors; keys and
// values are the new ones alone, in keys[0] and values[0]. Throws Error(kInvalidArgument) that names the operand, what
// was expected and what was found.
AttentionProblem resolve_attention(const AttentionConfig& config, const AttentionOperands& operands);

// Where consecutive rows of one query each attend to one row of memory (beams that share their source): makes them one
// row with so many queries, which then are handled together. The result is the same.
void join_queries(AttentionProblem& problem);

// The keys that query `t` of batch `b` may see by lengths, causality and window: [first, last).
struct KeyRange {
  int64_t first, last;
};
KeyRange visible_keys(const AttentionProblem& problem, int64_t b, int64_t t);

}  // namespace attune
