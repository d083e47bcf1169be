// com.microsoft's GroupQueryAttention, as ONNX Runtime's CPU kernel computes it: rotary embeddings, attention sinks,
// caches of float or quantised numbers.
#include <limits>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,  // of batch b, less one
  kTotal,    // the largest of the lengths
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

// How numbers stand in a cache.
struct Quantization {
  int64_t bits = 0;        // 0: as floats
  Value* scale = nullptr;  // broadcastable to (B, G, T, E)
};

class GroupQueryForm {
 public:
  explicit GroupQueryForm(FormBuilder& b)
      : b_(b), heads_(b.positive("num_heads")), kv_heads_(b.positive("kv_num_heads")), type_(b.type(kQuery)) {}

  std::vector<Value*> build() {
    check();
    const auto [query, key, value] = states();
    place(query, key, value);
    b_.operand(kAttentionQueryPosition) = start_;
    b_.attributes()["num_heads"] = heads_;
    b_.attributes()["num_kv_heads"] = kv_heads_;
    b_.set_scale();
    if (const float softcap = b_.node().attr_float("softcap", 0); softcap > 0) b_.attributes()["softcap"] = softcap;
    if (is_causal()) b_.attributes()["causal"] = int64_t{1};
    if (has_sink()) {
      add_sink();
    } else {
      b_.operand(kAttentionKeyLengths) = lengths_;
      b_.operand(kAttentionMask) = bias();
      if (window() > 0) b_.attributes()["window"] = std::vector<int64_t>{window() - 1, -1};
    }
    const int64_t shown = b_.node().attr_int("qk_output", 0);
    if (b_.wants(3)) b_.attributes()["weights_output"] = std::string(shown == 1 ? "biased" : "normalized");
    const Node* attention = b_.attention();
    return {attention->output(kAttentionContext), present_key_, present_value_,
            b_.wants(3) ? scores(attention->output(kAttentionWeights), shown == 1) : nullptr};
  }

 private:
  void check() const {
    const Node& node = b_.node();
    b_.refuse_if(!is_float(type_), "the element type isn't known");
    b_.expect_rank(kQuery, {3}, "query");
    b_.refuse_if(b_.in(kQueryNorm) || b_.in(kKeyNorm), "queries and keys are normalized inside the operator");
    b_.refuse_if(node.attr_int("sliding_window_cache", 0) != 0, "a cache of the window's size");
    b_.refuse_if(b_.wants(3) && node.attr_int("qk_output", 0) == 0, "the output of scores without qk_output");
    const bool rotates = node.attr_int("do_rotary", 0) != 0;
    b_.refuse_if(rotates && (!b_.in(kCos) || !b_.in(kSin)), "rotary embeddings without their caches");
    const int64_t bits = node.attr_int("kv_cache_bit_width", 0);
    b_.refuse_if(bits != 0 && bits != 4 && bits != 8, "kv_cache_bit_width isn't 4 or 8");
    for (const auto& [attribute, scale] : {std::pair("k_quant_type", kKeyScale), {"v_quant_type", kValueScale}})
      b_.refuse_if((node.attr_string(attribute, "NONE") != "NONE") != (bits != 0) || (bits != 0 && !b_.in(scale)),
                   "keys and values are quantised differently, or have no scale");
  }

  bool is_causal() const { return b_.node().attr_int("causal", 1) != 0; }
  bool has_sink() const { return b_.in(kSink) || b_.node().attr_int("smooth_softmax", 0) != 0; }
  int64_t window() const { return b_.node().attr_int("local_window_size", -1); }

  struct States {
    Value *query, *key, *value;  // (B, T, n E)
  };

  // New rows, apart and turned, and where they stand.
  States states() {
    States s{b_.in(kQuery), b_.in(kKey), b_.in(kValue)};
    if (!s.key) {  // packed: (B, T, (H + 2 G) E)
      Value* head = b_.as_list(b_.div(b_.dim(s.query, 2), b_.integer(heads_ + 2 * kv_heads_)));
      Value *wide = b_.mul(head, b_.integer(heads_)), *narrow = b_.mul(head, b_.integer(kv_heads_));
      const auto parts = b_.split_last(s.query, {wide, narrow, narrow});
      s = {parts[0], parts[1], parts[2]};
    }
    time_ = b_.dim(s.query, 1);
    lengths_ = b_.add(b_.cast(b_.op("Reshape", {b_.in(kLengths), b_.ints({-1})}), DataType::kInt64), b_.integer(1));
    total_ = b_.op("Reshape", {b_.cast(b_.in(kTotal), DataType::kInt64), b_.ints({})});
    if (b_.in(kQueryLengths)) {
      added_ = b_.cast(b_.in(kQueryLengths), DataType::kInt64);
      start_ = b_.sub(lengths_, added_);
    } else {
      // A prompt starts at 0, and is padded on the right where it is shorter.
      added_ = time_;
      is_prompt_ = b_.equal(time_, total_);
      start_ = b_.where(is_prompt_, b_.integer(0), b_.sub(lengths_, time_));
    }
    if (b_.node().attr_int("do_rotary", 0) != 0) {
      Value* at = positions();
      s.query = turn(s.query, heads_, at);
      s.key = turn(s.key, kv_heads_, at);
    }
    return s;
  }

  // (B, T): of the new rows. Of a prompt, the first position is given and the others follow it.
  Value* positions() {
    Value* steps = b_.range(time_);
    Value* batch = b_.dim(b_.in(kQuery), 0);
    Value* shape = b_.concat({b_.as_list(batch), b_.as_list(time_)}, 0);
    Value* given = b_.in(kPositions);
    if (!given) return b_.op("Expand", {b_.add(b_.unsqueeze(start_, {1}), steps), shape});
    if (!is_prompt_) return given;
    Value* first = b_.slice(b_.op("Reshape", {given, b_.ints({-1})}), b_.ints({0}), b_.ints({1}), 0);
    return b_.where(is_prompt_, b_.op("Expand", {b_.add(first, steps), shape}), given);
  }

  Value* turn(Value* x, int64_t heads, Value* at) {
    Value* width = b_.div(b_.dim(x, 2), b_.integer(heads));
    Value* split = b_.op("Reshape", {x, b_.concat({b_.ints({0, 0, heads}), b_.as_list(width)}, 0)});
    const bool interleaved = b_.node().attr_int("rotary_interleaved", 0) != 0;
    return b_.op("Reshape", {rotate(b_, split, at, {b_.in(kCos), b_.in(kSin), interleaved}), b_.shape(x)});
  }

  // Puts new keys and values into buffers that are as long as the longest needs: those of batch b at start[b].
  void place(Value* query, Value* key, Value* value) {
    Value* past_length = b_.in(kPastKey) ? b_.dim(b_.in(kPastKey), 2) : b_.integer(0);
    Value* length = b_.op("Max", {past_length, total_});
    Value* offset = b_.sub(b_.unsqueeze(b_.range(length), {1}), b_.unsqueeze(start_, {1, 2, 3}));  // (B, 1, T', 1)
    Value* added = b_.in(kQueryLengths) ? b_.unsqueeze(added_, {1, 2, 3}) : added_;
    const Placing placing{past_length, length,
                          b_.op("Max", {b_.op("Min", {offset, b_.sub(time_, b_.integer(1))}), b_.integer(0)}),
                          b_.both(b_.op("GreaterOrEqual", {offset, b_.integer(0)}), b_.op("Less", {offset, added}))};
    b_.operand(kAttentionQuery) = query;
    b_.operand(kAttentionKey) = buffer(key, b_.in(kPastKey), kKeyScale, placing, present_key_);
    b_.operand(kAttentionValue) = buffer(value, b_.in(kPastValue), kValueScale, placing, present_value_);
  }

  struct Placing {
    Value *past_length, *length;
    Value* row;     // (B, 1, T', 1): the new row that a place gets
    Value* is_new;  // (B, 1, T', 1): if it gets one
  };

  // `present` receives the buffer as it is stored.
  Value* buffer(Value* rows, Value* past, size_t scale, const Placing& p, Value*& present) {
    const Quantization q = quantization(scale);
    Value* x = b_.split_heads(rows, kv_heads_);  // (B, G, T, E)
    if (q.bits) x = codes(x, q);
    Value* shape = b_.concat(
        {b_.op("Slice", {b_.shape(x), b_.ints({0}), b_.ints({2})}), b_.as_list(p.length), b_.as_list(b_.dim(x, 3))}, 0);
    Value* placed = b_.op("GatherElements", {x, b_.op("Expand", {p.row, shape})}, {{"axis", int64_t{2}}});
    Value* before = b_.op("Expand", {b_.number(0, type_), shape});
    if (past) {
      if (q.bits) past = q.bits == 4 ? unpack(past) : b_.cast(past, type_);
      before = b_.concat({past, b_.slice(before, b_.as_list(p.past_length), b_.as_list(p.length), 2)}, 2);
    }
    Value* all = b_.where(p.is_new, placed, before);
    present = !q.bits ? all : q.bits == 4 ? pack(all) : b_.cast(all, DataType::kInt8);
    return q.bits ? b_.mul(all, q.scale) : all;
  }

  Quantization quantization(size_t input) {
    Quantization q{b_.node().attr_int("kv_cache_bit_width", 0), nullptr};
    if (q.bits == 0) return q;
    const bool by_channel =
        b_.node().attr_string(input == kKeyScale ? "k_quant_type" : "v_quant_type", "") == "PER_CHANNEL";
    Value* target = by_channel ? b_.ints({1, kv_heads_, 1, -1}) : b_.ints({1, 1, 1, 1});
    q.scale = b_.cast(b_.op("Reshape", {b_.in(input), target}), type_);
    return q;
  }

  // The nearest of the integers that the cache holds, as floats.
  Value* codes(Value* x, const Quantization& q) {
    const double lowest = q.bits == 4 ? -8 : -128;
    return b_.op("Clip",
                 {b_.op("Round", {b_.div(x, q.scale)}), b_.number(lowest, type_), b_.number(-lowest - 1, type_)});
  }

  // Two codes a byte, the earlier one in the lower half, 8 added to each.
  Value* unpack(Value* bytes) {
    Value *numbers = b_.cast(bytes, DataType::kInt32), *sixteen = b_.tensor(Tensor::scalar(int32_t{16}));
    Value *low = b_.op("Mod", {numbers, sixteen}), *high = b_.div(numbers, sixteen);
    Value* pairs = b_.concat({b_.unsqueeze(low, {4}), b_.unsqueeze(high, {4})}, 4);
    Value* width = b_.mul(b_.dim(bytes, 3), b_.integer(2));
    Value* flat = b_.op("Reshape", {pairs, b_.concat({b_.ints({0, 0, 0}), b_.as_list(width)}, 0)});
    return b_.sub(b_.cast(flat, type_), b_.number(8, type_));
  }

  Value* pack(Value* codes) {
    const auto half = [&](int64_t first) {
      Value* part = b_.op("Slice", {codes, b_.ints({first}), b_.ints({std::numeric_limits<int64_t>::max()}),
                                    b_.ints({3}), b_.ints({2})});
      return b_.add(part, b_.number(8, type_));
    };
    return b_.cast(b_.add(half(0), b_.mul(half(1), b_.number(16, type_))), DataType::kUInt8);
  }

  // The scores' bias, as wide as the buffer.
  Value* bias() {
    Value* given = b_.in(kBias);
    if (!given) return nullptr;
    Value* missing = b_.sub(b_.dim(b_.operand(kAttentionKey), 2), b_.dim(given, 3));
    Value* pads =
        b_.concat({b_.ints(std::vector<int64_t>(7, 0)), b_.op("Max", {b_.as_list(missing), b_.ints({0})})}, 0);
    return b_.op("Pad", {given, pads, b_.number(0, type_)});
  }

  // softmax with exp(sink) in its denominator: key 0 is zero and its score the sink, its value is zero; the others
  // follow it.
  void add_sink() {
    const auto with_zero_row = [&](Value* x) {
      Value* shape = b_.concat(
          {b_.op("Slice", {b_.shape(x), b_.ints({0}), b_.ints({2})}), b_.ints({1}), b_.as_list(b_.dim(x, 3))}, 0);
      return b_.concat({b_.op("Expand", {b_.number(0, type_), shape}), x}, 2);
    };
    Value* length = b_.dim(b_.operand(kAttentionKey), 2);
    Value* rest = bias();
    for (const AttentionInput i : {kAttentionKey, kAttentionValue}) b_.operand(i) = with_zero_row(b_.operand(i));
    b_.operand(kAttentionKeyLengths) = b_.add(lengths_, b_.integer(1));
    b_.operand(kAttentionQueryPosition) = b_.add(start_, b_.integer(1));
    if (window() > 0) rest = outside_window(rest ? rest : b_.number(0, type_), length);
    Value* sink = b_.in(kSink) ? b_.op("Reshape", {b_.in(kSink), b_.ints({1, -1, 1, 1})}) : b_.number(0, type_);
    // (B or 1, H or 1, Tq or 1, 1): as the rest, which is broadcast to it where it is smaller.
    if (!rest) rest = b_.op("Expand", {b_.number(0, type_), b_.concat({b_.ints({1, 1, 1}), b_.as_list(length)}, 0)});
    Value* outer = b_.concat({b_.ints({1}), b_.ints({heads_}), b_.ints({1, 1})}, 0);
    rest = b_.op("Expand", {rest, outer});
    Value* column = b_.concat({b_.op("Slice", {b_.shape(rest), b_.ints({0}), b_.ints({3})}), b_.ints({1})}, 0);
    b_.operand(kAttentionMask) = b_.concat({b_.op("Expand", {sink, column}), rest}, 3);
  }

  // `mask`, and -inf at keys before the window: the attribute would hide the sink.
  Value* outside_window(Value* mask, Value* length) {
    Value* at = b_.add(b_.unsqueeze(start_, {1}), b_.range(time_));             // (B, T)
    Value* first = b_.unsqueeze(b_.sub(at, b_.integer(window() - 1)), {1, 3});  // (B, 1, T, 1)
    Value* inside = b_.op("GreaterOrEqual", {b_.range(length), first});
    return b_.where(inside, mask, b_.number(-std::numeric_limits<double>::infinity(), type_));
  }

  // Scores or weights of the first `total` keys; what isn't seen is 0.
  Value* scores(Value* weights, bool biased) {
    Value* first = b_.ints({has_sink() ? 1 : 0});
    Value* shown = b_.slice(weights, first, b_.add(first, b_.as_list(total_)), 3);
    if (!biased) return shown;
    Value* none = b_.number(-std::numeric_limits<double>::infinity(), type_);
    return b_.where(b_.equal(shown, none), b_.number(0, type_), shown);
  }

  FormBuilder& b_;
  const int64_t heads_, kv_heads_;
  const DataType type_;
  Value *time_ = nullptr, *total_ = nullptr;     // scalars: rows of the query; the largest length
  Value *lengths_ = nullptr, *start_ = nullptr;  // (B): of the keys; where the new ones start
  Value* added_ = nullptr;                       // rows that are new: a scalar, or (B)
  Value* is_prompt_ = nullptr;                   // null: not, as lengths of the queries are given
  Value *present_key_ = nullptr, *present_value_ = nullptr;
};

}  // namespace

std::vector<Value*> build_group_query_attention_form(FormBuilder& b) { return GroupQueryForm(b).build(); }

}  // namespace attune
