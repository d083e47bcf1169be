// The pattern language: a pattern reads like the forward computation that it stands for.
//
//   Pat q = any("q"), k = any("k"), scale = scalar("scale");
//   Pat scores = Op("MatMul")(q, Op("Transpose").attr("perm", {0, 1, 3, 2})(k));
//   Pat scaled = one_of("scaling", {Op("Mul")(scores, scale), Op("Div")(scores, scale), scores});
//
// - Commutative operators match in both orders, with backtracking.
// - The same Pat in two places must be the same value.
// - A value inside a match may not be used outside it, nor be a graph output, unless its Pat says shared() or
//   replaced(). Values that any(), constant() or scalar() stand for are operands: they may be used anywhere.
// - A constant matches wherever it is: an initializer, a Constant node, of this graph or one around it, or a value that
//   inference knows.
// - Names of values can't be asked for.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/infer/infer.h"

namespace attune::pattern {

struct PatNode;
using Pat = std::shared_ptr<const PatNode>;

// Answers about a candidate value that a pattern may ask.
using Predicate = std::function<bool(const Value&, const Inference&)>;

enum class Kind { kAny, kConstant, kScalar, kOp, kOneOf };
// What happens to a matched value that is used outside of the match, too.
enum class OutsideUse { kForbidden, kShared, kReplaced };

struct AttributeTest {
  std::string name;
  Attribute value;
  bool is_axis = false;       // value counts from the end, so a positive attribute needs the rank
  bool has_fallback = false;  // what the operator assumes when the attribute is left out
  Attribute fallback;
};

struct PatNode {
  Kind kind = Kind::kAny;
  std::string name;         // capture; empty: anonymous
  std::vector<Pat> inputs;  // operands of kOp, alternatives of kOneOf
  // kOp
  std::string domain, type;
  std::vector<AttributeTest> attributes;
  size_t output = 0;
  bool further_inputs = false;
  OutsideUse outside = OutsideUse::kForbidden;
  // kConstant
  double value = 0, tolerance = 0;
  // where()
  std::string expectation;
  Predicate predicate;

  std::string label() const;  // "Softmax", "'scale'", "constant 0.5"
};

// Any value; a left-out input is none.
Pat any(std::string name = {});
// A float or integer constant of any shape whose elements all lie within tolerance * max(1, |value|) of `value`.
Pat constant(double value, double tolerance = 1e-6);
// A tensor of one element that is known now. Match::number() gives it.
Pat scalar(std::string name);
// `pat` (not a one_of), if `predicate` holds, which is asked once the operator is the right one; `expectation`
// completes "expected ..." ("rank 4").
Pat where(const Pat& pat, std::string expectation, Predicate predicate);
// where() with a known rank.
Pat of_rank(int rank, const Pat& pat);
// The first alternative that lets the whole pattern match. Match::choice(name) gives its index.
Pat one_of(std::string name, std::vector<Pat> alternatives);

// An operator. Op(type, capture)...(operands) gives its Pat; the number of operands is the number of inputs that the
// node must have, unless further_inputs() is said.
class Op {
 public:
  explicit Op(std::string type, std::string name = {});
  Op&& domain(std::string domain) &&;
  Op&& attr(std::string name, Attribute value) &&;
  Op&& attr(std::string name, std::initializer_list<int64_t> value) &&;
  // `fallback`: the operator's default.
  Op&& attr_or(std::string name, Attribute value, Attribute fallback) &&;
  // An axis counted from the end, whichever way the node counts; the operator's default where it is left out.
  Op&& axis(int64_t from_end) &&;
  // The value is output `i` of the node (0 if not said).
  Op&& output(size_t i) &&;
  // The node may have more inputs than operands are given; the rule has to look after them.
  Op&& further_inputs() &&;
  // May be used outside: it stays there for those users.
  Op&& shared() &&;
  // May be used outside: the rule gives it anew to those users.
  Op&& replaced() &&;

  template <class... P>
  Pat operator()(P... operands) && {
    return std::move(*this).apply({Pat(operands)...});
  }
  Pat apply(std::vector<Pat> operands) &&;

 private:
  PatNode node_;
};

// `op` around `inner` (its first operand; `rest` are the others), or `inner` alone. Match::node(capture of op) tells.
template <class... P>
Pat optional(Op op, const Pat& inner, P... rest) {  // NOLINT(performance-unnecessary-value-param): op is moved
  return one_of({}, {std::move(op)(inner, rest...), inner});
}

}  // namespace attune::pattern
