#include "ops/schema/attention_body.h"

#include <limits>

#include "ops/schema/attention_body_base.h"
#include "ops/schema/schemas.h"

namespace attune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class AttentionBody : AttentionBodyBase {
 public:
  AttentionBody(const Node& node, int64_t opset, Graph& body, const BodyOptions& options)
      : AttentionBodyBase(node, opset, body), options_(options) {
    if (config_.sample) refuse("a function body can't sample");
  }

  std::vector<Value*> build() {
    states();
    const auto scores = score();
    see(scores.raw);
    Value* weights = align(scores);
    Value* context = combine(weights);
    context = narrow(context);
    if (query_rank_ == 3) context = merge_heads(context);
    std::vector<Value*> outputs{context, present_key_, present_value_, shown(scores, weights), next_position_};
    outputs.resize(node_.output_count());
    return outputs;
  }

 private:
  struct Scores {
    Value *raw, *capped, *biased;
  };

  // --- steps 1 and 2

  void states() {
    project_states();
    if (query_rank_ == 3) query_ = split_heads(query_, heads_);
    if (key_rank_ == 3) key_ = split_heads(key_, kv_heads_);
    if (value_rank_ == 3) value_ = split_heads(value_, kv_heads_);
    if (inputs_[kAttentionPastKey]) {
      key_ = b_.concat({inputs_[kAttentionPastKey], key_}, 2);
      value_ = b_.concat({inputs_[kAttentionPastValue], value_}, 2);
    }
    present_key_ = b_.op("Identity", {key_});
    present_value_ = b_.op("Identity", {value_});
    query_ = wide(query_);
    key_ = repeat_heads(wide(key_));
    value_ = repeat_heads(wide(value_));
    query_length_ = b_.dim(query_, 2);
    key_length_ = b_.dim(key_, 2);
    positions_ = b_.range(key_length_);
  }

  // Head h of the query reads head h / (H / G).
  Value* repeat_heads(Value* x) {
    const bool equal = config_.num_heads > 0 && config_.num_heads == config_.num_kv_heads;
    if (equal || heads_ == kv_heads_) return x;
    Value* source = b_.div(b_.range(heads_), b_.div(heads_, kv_heads_));
    return b_.op("Gather", {x, source}, {{"axis", int64_t{1}}});
  }

  // --- step 3

  Scores score() {
    Value* w = inputs_[kAttentionScoreWeight] ? wide(inputs_[kAttentionScoreWeight]) : nullptr;
    Value* s = nullptr;
    if (config_.score == AttentionScore::kAdditive) {
      Value* sum = b_.add(b_.unsqueeze(query_, {3}), b_.unsqueeze(key_, {2}));
      Value* product = b_.mul(b_.op("Tanh", {sum}), b_.unsqueeze(w, {1, 2}));
      s = b_.op("ReduceSum", {product, b_.ints({-1})}, {{"keepdims", int64_t{0}}});
    } else {
      Value* query = config_.score == AttentionScore::kGeneral ? b_.matmul(query_, w) : query_;
      s = b_.matmul(query, b_.transpose(key_, {0, 1, 3, 2}));
      if (config_.score == AttentionScore::kScaledDot) s = b_.mul(s, scale());
    }
    if (inputs_[kAttentionScoreBias]) s = b_.add(s, b_.unsqueeze(wide(inputs_[kAttentionScoreBias]), {1, 2}));
    Scores scores{s, s, s};
    if (config_.softcap > 0) {
      Value* cap = number(static_cast<double>(config_.softcap));
      scores.capped = b_.mul(b_.op("Tanh", {b_.div(s, cap)}), cap);
    }
    Value* mask = inputs_[kAttentionMask];
    scores.biased = scores.capped;
    if (has_float_mask()) scores.biased = add_mask(scores.capped, wide(mask));
    return scores;
  }

  Value* scale() {
    if (config_.scale) return number(static_cast<double>(*config_.scale));
    return b_.div(number(1), b_.op("Sqrt", {b_.cast(b_.dim(query_, 3), wide_)}));
  }

  // A sum that overflows with a finite mask is the lowest finite number.
  Value* add_mask(Value* scores, Value* mask) {
    Value* none = number(-kInfinity);
    Value* sum = b_.add(scores, mask);
    Value* finite = b_.negate(b_.op("Or", {b_.equal(scores, none), b_.equal(mask, none)}));
    return b_.where(b_.both(b_.equal(sum, none), finite), number(lowest_of(wide_)), sum);
  }

  // --- step 5: which positions take part, as a bool tensor of the scores' shape; null: all

  void see(Value* scores) {
    Value* ok = visible(query_length_, positions_, {});
    if (Value* mask = inputs_[kAttentionMask])
      ok = b_.both(has_bool_mask() ? mask : b_.negate(b_.equal(wide(mask), number(-kInfinity))), ok);
    if (ok) seen_ = b_.op("Expand", {ok, b_.shape(scores)});
  }

  // --- step 6

  Value* align(const Scores& scores) {
    if (config_.alignment == AttentionAlignment::kMonotonic) return choose_in_order(scores.biased);
    Value* any = seen_ ? b_.op("Greater", {b_.reduce_sum(b_.cast(seen_, wide_), -1), number(0)}) : nullptr;
    Value* weights = config_.alignment == AttentionAlignment::kHard ? choose_largest(scores.biased, any)
                                                                    : soften(scores.biased, seen_, any);
    if (config_.mean_of_empty_rows && any) {
      weights = b_.where(any, weights, b_.div(number(1), b_.cast(key_length_, wide_)));
      read_ = b_.op("Or", {read_, b_.negate(any)});
    }
    return weights;
  }

  // Softmax over the positions in `seen` (null: all).
  Value* soften(Value* scores, Value* seen, Value* any) {
    read_ = seen;
    if (!seen) return b_.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
    Value* inside = b_.where(any, b_.where(seen, scores, number(-kInfinity)), number(0));
    return b_.where(seen, b_.op("Softmax", {inside}, {{"axis", int64_t{-1}}}), number(0));
  }

  // Appends a column of `value` to `x`, so that there is something to take a maximum of.
  Value* with_sentinel(Value* x, double value) {
    Value* rows = b_.concat({b_.op("Slice", {b_.shape(x), b_.ints({0}), b_.ints({-1})}), b_.ints({1})}, 0);
    return b_.concat({x, b_.op("Expand", {number(value), rows})}, -1);
  }

  Value* first_largest(Value* x) {
    return b_.op("ArgMax", {x}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{0}}});
  }

  Value* choose_largest(Value* scores, Value* any) {
    // What is seen stays above what isn't.
    Value* inside = b_.op("Max", {scores, number(lowest_of(wide_))});
    if (seen_) inside = b_.where(seen_, inside, number(-kInfinity));
    Value* chosen = b_.equal(positions_, first_largest(with_sentinel(inside, -kInfinity)));
    if (any) chosen = b_.both(chosen, any);
    read_ = chosen;
    return b_.cast(chosen, wide_);
  }

  Value* choose_in_order(Value* scores) {
    Value* candidates = b_.both(b_.op("GreaterOrEqual", {scores, number(0)}), seen_);
    Value* batch_heads = b_.op("Slice", {b_.shape(query_), b_.ints({0}), b_.ints({2})});
    Value* start = inputs_[kAttentionPosition];
    start = start ? b_.op("Min", {start, key_length_}) : b_.op("Expand", {b_.integer(0), batch_heads});
    // Hosts refuse a scan over nothing: one more query, which has no candidates, comes last and is taken off again.
    Value* more = b_.concat({b_.ints({1}), batch_heads, b_.as_list(key_length_)}, 0);
    Value* queries = b_.concat(
        {b_.transpose(candidates, {2, 0, 1, 3}), b_.op("Expand", {b_.tensor(Tensor::scalar(false)), more})}, 0);
    Node* scan = b_.node("Scan", {start, queries}, 2, {{"num_scan_inputs", int64_t{1}}});
    Graph::attach(step(), scan, "body");
    Value* stops = b_.op("Slice", {scan->output(1), b_.ints({0}), b_.as_list(query_length_), b_.ints({0})});
    next_position_ =
        b_.op("Gather", {b_.concat({b_.unsqueeze(start, {0}), stops}, 0), query_length_}, {{"axis", int64_t{0}}});
    Value* chosen = b_.unsqueeze(b_.transpose(stops, {1, 2, 0}), {3});
    // A query that chose none has Tk as its position, which no key has.
    Value* inside = b_.both(b_.op("LessOrEqual", {positions_, chosen}),
                            b_.op("Greater", {positions_, b_.sub(chosen, b_.integer(config_.chunk))}));
    inside = b_.both(inside, b_.op("Less", {chosen, key_length_}));
    inside = b_.both(inside, seen_);
    Value* any = b_.op("Greater", {b_.reduce_sum(b_.cast(inside, wide_), -1), number(0)});
    return soften(scores, inside, any);
  }

  // One query of a monotonic alignment: positions (B, H) and candidates (B, H, Tk) give the first candidate from the
  // position on, or Tk.
  std::shared_ptr<Graph> step() {
    auto graph = std::make_shared<Graph>();
    graph->name = "choose";
    Value* position = graph->add_input("position", ValueType::of(DataType::kInt64, Dims{Dim(), Dim()}));
    Value* candidates = graph->add_input("candidates", ValueType::of(DataType::kBool, Dims{Dim(), Dim(), Dim()}));
    BodyBuilder b(*graph, b_.opset());
    Value* reached = b.op("GreaterOrEqual", {b.range(b.dim(candidates, 2)), b.unsqueeze(position, {2})});
    Value* open = b.cast(b.both(candidates, reached), DataType::kFloat);
    // The sentinel comes last: it is chosen where nothing else is.
    Value* rows = b.concat({b.shape(position), b.ints({1})}, 0);
    Value* sentinel = b.op("Expand", {b.number(1, DataType::kFloat), rows});
    Value* first = b.op("ArgMax", {b.concat({open, sentinel}, 2)}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}});
    const auto output = [&](const char* name) {
      Value* v = b.op("Identity", {first});
      v->set_name(name);
      v->set_type(ValueType::of(DataType::kInt64, Dims{Dim(), Dim()}));
      graph->add_output(v);
    };
    output("next");
    output("chosen");
    return graph;
  }

  // --- step 7

  // weights (B, H, Tq, Tk) times values, without the values that aren't read: those that aren't finite are left out of
  // the product, and come back in rows that read them.
  Value* combine(Value* weights) {
    if (!read_) return b_.matmul(weights, value_);
    // Not changed by it, but kept apart from the product: OpenVINO 2026.4 takes products with a softmax between them as
    // one kernel, which computes wrong values if several Wheres lie in it.
    if (seen_) weights = b_.op("Reshape", {weights, b_.shape(seen_)});
    Value* bad = b_.op("Or", {b_.op("IsNaN", {value_}), b_.op("IsInf", {value_})});
    Value* finite = b_.matmul(weights, b_.where(bad, number(0), value_));
    if (!options_.branches) return with_bad_values(b_, weights, finite);
    Value* any_bad = b_.op("ReduceMax", flat_reduction(b_.cast(bad, DataType::kFloat)), {{"keepdims", int64_t{0}}});
    Node* choice = b_.node("If", {b_.op("Greater", {any_bad, b_.number(0, DataType::kFloat)})}, 1);
    const auto attach = [&](const char* branch, const char* name, auto&& value) {
      auto graph = std::make_shared<Graph>();
      graph->name = name;
      BodyBuilder b(*graph, b_.opset());
      Value* output = value(b);
      output->set_type(ValueType::of(wide_, Dims{Dim(), Dim(), Dim(), Dim()}));
      graph->add_output(output);
      Graph::attach(std::move(graph), choice, branch);
    };
    attach("then_branch", "not_finite", [&](BodyBuilder& b) { return with_bad_values(b, weights, finite); });
    attach("else_branch", "finite", [&](BodyBuilder& b) { return b.op("Identity", {finite}); });
    return choice->output();
  }

  // All elements and a zero, so that there is something to reduce.
  std::vector<Value*> flat_reduction(Value* x) {
    Value* flat = b_.op("Reshape", {x, b_.ints({-1})});
    return {b_.concat({flat, b_.tensor(Tensor::from<float>({1}, {0}))}, 0)};
  }

  // The product of IEEE: weight * value over what is read, added to the product over finite values.
  Value* with_bad_values(BodyBuilder& b, Value* weights, Value* finite) const {
    const auto number = [&](double x) { return b.number(x, wide_); };
    const auto rows_with = [&](Value* weight_condition, Value* value_condition) {
      Value* count = b.matmul(b.cast(weight_condition, wide_), b.cast(value_condition, wide_));
      return b.op("Greater", {count, number(0)});
    };
    const auto inf = [&](bool positive) {
      return b.op("IsInf", {value_}, {{"detect_negative", int64_t{!positive}}, {"detect_positive", int64_t{positive}}});
    };
    Value* weighty = b.both(read_, b.op("Greater", {weights, number(0)}));
    Value* weightless = b.both(read_, b.equal(weights, number(0)));
    Value* nan =
        b.op("Or", {rows_with(read_, b.op("IsNaN", {value_})), rows_with(weightless, b.op("IsInf", {value_}))});
    const auto part = [&](Value* condition, double x) { return b.where(condition, number(x), number(0)); };
    Value* sum = b.add(finite, part(rows_with(weighty, inf(true)), kInfinity));
    sum = b.add(sum, part(rows_with(weighty, inf(false)), -kInfinity));
    return b.add(sum, part(nan, std::numeric_limits<double>::quiet_NaN()));
  }

  // --- the weights output

  Value* shown(const Scores& scores, Value* weights) {
    if (node_.output_count() <= kAttentionWeights) return nullptr;
    switch (config_.weights) {
      case AttentionWeights::kRaw:
        return b_.op("Identity", {narrow(scores.raw)});
      case AttentionWeights::kCapped:
        return b_.op("Identity", {narrow(scores.capped)});
      case AttentionWeights::kBiased:
        return biased(scores.biased);
      case AttentionWeights::kNormalized:
        return b_.op("Identity", {narrow(weights)});
      case AttentionWeights::kHeadMean:
        break;
    }
    return narrow(b_.div(b_.reduce_sum(weights, 1), b_.cast(heads_, wide_)));
  }

  Value* biased(Value* scores) {
    Value* none = number(-kInfinity);
    if (has_float_mask() && type_ != wide_) {
      Value* lowest = number(lowest_of(type_));
      scores = b_.where(b_.both(b_.op("Less", {scores, lowest}), b_.op("Greater", {scores, none})), lowest, scores);
    }
    if (seen_) scores = b_.where(seen_, scores, none);
    return b_.op("Identity", {narrow(scores)});
  }

  BodyOptions options_;
  Value *present_key_ = nullptr, *present_value_ = nullptr, *next_position_ = nullptr;
  Value *query_length_ = nullptr, *key_length_ = nullptr, *positions_ = nullptr;
  Value* seen_ = nullptr;  // positions that take part; null: all
  Value* read_ = nullptr;  // positions whose values are read; null: all
};

}  // namespace

std::vector<Value*> build_attention_body(const Node& node, int64_t opset, Graph& body, const BodyOptions& options) {
  return AttentionBody(node, opset, body, options).build();
}

}  // namespace attune
