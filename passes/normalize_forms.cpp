// Spellings of exporters, rewritten to the one that the fusion rules know.
#include <algorithm>

#include "passes/attention_node.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

// Before opset 13 Softmax worked on the input made two-dimensional at `axis`, 1 if it was left out. Over the last axis
// both meanings are one.
constexpr int64_t kSoftmaxOfOneAxis = 13;

size_t write_softmax_axes(PassContext& context) {
  const Model& model = context.model;
  size_t changes = 0;
  model.graph->for_each_node([&](Node& n) {
    if (!(n.is("Softmax") || n.is("LogSoftmax")) || n.has("axis") || !context.may_rewrite()) return;
    n.set("axis", model.opset() >= kSoftmaxOfOneAxis ? int64_t{-1} : int64_t{1});
    context.report.rewrites.push_back({"normalize_softmax_axis", n.label(), std::string(n.output()->name()), {}});
    ++changes;
  });
  return changes;
}

// Where(not c, a, b) = Where(c, b, a)
pattern::Rule negated_condition() {
  Pat c = any("c"), a = any("a"), b = any("b");
  return {"normalize_condition", Op("Where")(Op("Not").shared()(c), a, b),
          [](const Match& m, Builder& builder) -> Outcome {
            return builder.op("Where", {m["c"], m["b"], m["a"]});
          }};
}

// CastLike(x, y) = Cast(x) to y's type, which needs y no more; both have the same attributes for rounding
pattern::Rule cast_like() {
  return {"normalize_cast_like", Op("CastLike", "cast")(any("x"), any("like")),
          [](const Match& m, Builder& b) -> Outcome {
            const DataType type = m["like"]->element_type();
            if (type == DataType::kUndefined) return m.refuse("like", "its type is not known");
            Attributes attributes = m.node("cast")->attributes();
            attributes["to"] = static_cast<int64_t>(type);
            return b.op("Cast", {m["x"]}, std::move(attributes));
          }};
}

// com.microsoft FusedMatMul(a, b) = alpha op(a) op(b)
pattern::Rule fused_matmul() {
  Pat product = Op("FusedMatMul", "product").domain("com.microsoft")(any("a"), any("b"));
  return {"normalize_fused_matmul", product, [](const Match& m, Builder& b) -> Outcome {
            const Node& n = *m.node("product");
            const auto operand = [&](Value* x, const char* last_two, const char* batch) -> Value* {
              const int rank = x->tensor_type().rank();
              if (rank < 2) return nullptr;
              std::vector<int64_t> perm;
              for (int i = 0; i < rank; ++i) perm.push_back(i);
              // With the batch flag the row axis comes first and the batch axes follow it.
              if (n.attr_int(batch, 0) != 0) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
              if (n.attr_int(last_two, 0) != 0) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
              return std::is_sorted(perm.begin(), perm.end()) ? x : b.transpose(x, perm);
            };
            Value* left = operand(m["a"], "transA", "transBatchA");
            Value* right = operand(m["b"], "transB", "transBatchB");
            if (!left || !right) return m.refuse("product", "the ranks of its operands are not known");
            Value* result = b.op("MatMul", {left, right});
            const float alpha = n.attr_float("alpha", 1);
            return alpha == 1 ? result : b.op("Mul", {result, b.scalar(alpha, m["a"]->element_type())});
          }};
}

}  // namespace

size_t normalize_forms(PassContext& context) {
  std::vector<pattern::Rule> list = {negated_condition(), cast_like(), fused_matmul(), rules::transposed_scores()};
  for (auto&& rules : {rules::contraction_forms(), rules::row_forms(), rules::broadcast_forms(), rules::mask_forms(),
                       rules::relative_score_forms(), rules::softmax_forms(), rules::transpose_forms(),
                       rules::projection_forms(), rules::row_part_forms(), rules::head_forms()})
    list.insert(list.end(), rules.begin(), rules.end());
  return write_softmax_axes(context) + pattern::apply_rules(list, context);
}

}  // namespace attune
