#include "passes/token_positions.h"

#include <algorithm>
#include <array>

#include "passes/mask_analysis.h"
#include "passes/node_facts.h"
#include "passes/uniform_value.h"

namespace attune {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::array kPolynomial = {"Add", "Sub", "Mul"};

bool counts(DataType type) { return is_integer(type) || type == DataType::kBool; }

// What a Cast between integers or bools was made of.
Value* without_casts(Value* v) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const Node* n = v->producer();
    const bool keeps = n && (n->is("Identity") || (n->is("Cast") && is_integer(v->element_type())));
    if (!keeps || !counts(n->input(0)->element_type())) break;
    v = n->input(0);
  }
  return v;
}

// The integers as a polynomial in the token t at a position and the sum n of tokens up to it.
class TokenCount {
 public:
  TokenCount(const Inference& inference, Value* rows) : inference_(inference) { find_tokens(rows, 0); }

  Value* tokens() const { return tokens_; }

  struct Form {
    Dim one, token, count, product;  // coefficients of 1, t, n and t n
  };

  std::optional<Form> evaluate(Value* v, int depth = 0) const {
    v = without_casts(v);
    if (v == tokens_) return Form{0, 1, 0, 0};
    if (v == count_) return Form{0, 0, 1, 0};
    if (const auto known = inference_.integers(v); known && known->size() == 1 && known->at(0).known())
      return Form{known->at(0), 0, 0, 0};
    if (const auto number = uniform_value(v, inference_); number && counts(v->element_type()))
      return Form{static_cast<int64_t>(*number), 0, 0, 0};
    const Node* n = v->producer();
    if (!n || depth > kMaxDepth || !is_one_of(*n, kPolynomial)) return std::nullopt;
    const auto a = evaluate(n->input(0), depth + 1), b = evaluate(n->input(1), depth + 1);
    if (!a || !b) return std::nullopt;
    if (n->is("Add")) return Form{a->one + b->one, a->token + b->token, a->count + b->count, a->product + b->product};
    if (n->is("Sub")) return Form{a->one - b->one, a->token - b->token, a->count - b->count, a->product - b->product};
    return product(*a, *b);
  }

 private:
  static bool no_tokens(const Form& f) { return f.token.is(0) && f.product.is(0); }

  // Without squares, which only tokens of 0 and 1 have in this form.
  static std::optional<Form> product(const Form& a, const Form& b) {
    const bool squares = (!no_tokens(a) && !no_tokens(b)) || (!a.count.is(0) && !(b.count.is(0) && b.product.is(0))) ||
                         (!b.count.is(0) && !a.product.is(0));
    if (squares) return std::nullopt;
    return Form{a.one * b.one, a.one * b.token + a.token * b.one, a.one * b.count + a.count * b.one,
                a.one * b.product + a.product * b.one + a.token * b.count + a.count * b.token};
  }

  void find_tokens(Value* v, int depth) {
    const Node* n = v->producer();
    if (!n || depth > kMaxDepth) return;
    if (n->is("CumSum") && is_count(*n)) {
      count_ = v;
      tokens_ = without_casts(n->input(0));
    }
    if (is_one_of(*n, kPolynomial) || n->is("Cast") || n->is("Identity"))
      for (Value* input : n->inputs()) find_tokens(input, depth + 1);
  }

  bool is_count(const Node& n) const {
    const auto axis = inference_.scalar(n.input(1));
    return n.attr_int("exclusive", 0) == 0 && n.attr_int("reverse", 0) == 0 && (axis == -1 || axis == 1);
  }

  const Inference& inference_;
  Value *tokens_ = nullptr, *count_ = nullptr;
};

// Where a Slice of neighbours along this one axis begins.
std::optional<Dim> slice_start(const Node& slice, int64_t axis, const Inference& inference) {
  const int rank = slice.output()->tensor_type().rank();
  const auto starts = inference.integers(slice.input(1));
  const auto axes = slice.input(3) ? inference.scalar(slice.input(3)) : 0;
  const auto steps = slice.input(4) ? inference.scalar(slice.input(4)) : 1;
  const bool neighbours = starts && starts->size() == 1 && (axes == axis || axes == axis - rank) && steps == 1;
  return neighbours && starts->at(0).at_least(0) ? std::optional(starts->at(0)) : std::nullopt;
}

// What `v` takes the last columns of, if it does; else `v`.
Value* before_tail(Value* v, const Inference& inference) {
  const Node* n = v->producer();
  if (!n || !n->is("Slice") || v->tensor_type().rank() != 2) return v;
  const auto first = slice_start(*n, 1, inference);
  return first && n->input(0)->tensor_type().dim(1) - *first == v->tensor_type().dim(1) ? n->input(0) : v;
}

TokenPositions positions_from(const Dim& first) {
  TokenPositions out;
  if (const auto summands = first.summands())
    for (const Dim::Summand& s : *summands)
      if (s.symbols.empty()) out.offset = s.factor;
  out.start = first - out.offset;
  return out;
}

bool has_indices(const Dim& d) {
  const auto symbols = d.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with("@"); });
}

}  // namespace

std::optional<TokenPositions> sliced_positions(const Node& slice, int64_t axis, const Inference& inference) {
  const auto first = slice_start(slice, axis, inference);
  auto out = first ? std::optional(positions_from(*first)) : std::nullopt;
  const auto ends = out ? inference.integers(slice.input(2)) : std::nullopt;
  if (ends && ends->size() == 1) out->asked = ends->at(0) - *first;
  return out;
}

std::optional<TokenPositions> token_positions(const Value& rows, const Inference& inference) {
  const int rank = rows.tensor_type().rank();
  const Dim index = rows.tensor_type().dim(-1).is(1) ? Dim(0) : index_symbol(static_cast<size_t>(rank - 1));
  const Dim first = analyze_integers(rows, inference) - index;
  if (first.known() && !has_indices(first)) {
    auto out = positions_from(first);
    const Node* n = rows.producer();
    if (const auto sliced = n && n->is("Slice") ? sliced_positions(*n, rank - 1, inference) : std::nullopt)
      out.asked = sliced->asked;
    return out;
  }
  Value* all = const_cast<Value*>(&rows);
  if (Value* cast = without_casts(all)) all = before_tail(cast, inference);
  const TokenCount count(inference, all);
  const Value* tokens = count.tokens();
  if (!tokens || tokens->tensor_type().rank() != 2 || tokens->tensor_type().shape != all->tensor_type().shape)
    return std::nullopt;
  const auto form = count.evaluate(all);
  if (!form || !form->count.is(0) || !form->product.is(1) || !form->one.constant()) return std::nullopt;
  return TokenPositions{*form->one.constant(), form->token, count.tokens(), {}};
}

}  // namespace attune
