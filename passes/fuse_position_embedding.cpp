// scale x + table[start + t]                          =  PositionEmbedding(x, table, start)
// scale x + table[offset + token (start + sum token)] =  PositionEmbedding(x, table, start, tokens)
// whatever subgraph computes the rows: ranges, slices of the table or of constant positions, running sums of a mask
#include <fmt/format.h>

#include "passes/attention_node.h"
#include "passes/passes.h"
#include "passes/size_builder.h"
#include "passes/token_positions.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

Pat sum_pattern() {
  Pat table = any("table");
  const auto positions = [] {
    return where(any("rows"), "positions counted by sizes of inputs or by a running sum of tokens",
                 [](const Value& v, const Inference& i) { return token_positions(v, i).has_value(); });
  };
  const auto gather = [&](const Pat& rows) {
    return Op("Gather", "gather").attr_or("axis", int64_t{0}, int64_t{0})(table, rows);
  };
  Pat flat = Op("Reshape")(gather(Op("Reshape")(positions(), any())), any());
  Pat sliced =
      where(Op("Slice", "slice").further_inputs()(table), "rows from a known one on",
            [](const Value& v, const Inference& i) { return sliced_positions(*v.producer(), 0, i).has_value(); });
  Pat lookup = one_of("lookup", {gather(positions()), flat, sliced});
  Pat placed = pattern::optional(Op("Unsqueeze", "placed").further_inputs(), lookup);
  Pat x = any("x");
  return Op("Add")(one_of("scaling", {Op("Mul")(x, pattern::scalar("scale")), x}), placed);
}

// Whether the table's rows are added to the states one by one, and along the axes in front copied to all. A
// Slice that asks for as many as there are states gives fewer only beyond the end of the table.
bool adds_row_by_row(const TensorType& rows, const TensorType& states, const Dim& asked) {
  const int rank = rows.rank();
  if (rank < 2 || states.rank() < rank || !rows.dim(-1).constant() || !(rows.dim(-1) == states.dim(-1)) ||
      !(rows.dim(-2) == states.dim(-2) || asked == states.dim(-2)))
    return false;
  for (int axis = -3; axis >= -rank; --axis)
    if (!rows.dim(axis).is(1) && !(rows.dim(axis) == states.dim(axis))) return false;
  return true;
}

// Positions of tokens differ from sentence to sentence.
bool has_row_of_each_token(const TensorType& rows, const TensorType& states, const TensorType& tokens) {
  return rows.rank() == 3 && states.rank() == 3 && rows.dim(0) == states.dim(0) && tokens.dim(0) == states.dim(0);
}

Outcome rewrite(const Match& m, Builder& b, Graph& outermost) {
  Value *x = m["x"], *table = m["table"];
  const Value* added = m.node("gather") ? m.node("gather")->output() : m.node("slice")->output();
  if (m.choice("lookup") == 1) added = added->uses()[0].node->output();  // folded back
  if (m.node("placed")) added = m.node("placed")->output();
  if (!table->constant() || table->tensor_type().rank() != 2)
    return m.refuse("table", fmt::format("{} is not a constant table of positions", table->type().to_string()));
  const auto positions = m.node("slice") ? sliced_positions(*m.node("slice"), 0, m.inference())
                                         : token_positions(*m["rows"], m.inference());
  if (!adds_row_by_row(added->tensor_type(), x->tensor_type(), positions->asked))
    return m.refuse("lookup", fmt::format("{} does not have one row for each state of {}", added->type().to_string(),
                                          x->type().to_string()));
  if (positions->tokens &&
      !has_row_of_each_token(added->tensor_type(), x->tensor_type(), positions->tokens->tensor_type()))
    return m.refuse("rows", "are counted in other sentences than those of the states");
  SizeBuilder sizes(outermost, &b.inference());
  if (!sizes.can_compute(positions->start))
    return m.refuse("rows", fmt::format("the first position, {}, is not known by the sizes of inputs",
                                        positions->start.to_string()));
  std::vector<Value*> inputs{x, table, nullptr, positions->tokens};
  if (!positions->start.is(0)) inputs[2] = sizes.scalar(positions->start);
  if (inputs[3] && inputs[3]->element_type() != DataType::kInt64)
    inputs[3] = b.op("Cast", {inputs[3]}, {{"to", static_cast<int64_t>(DataType::kInt64)}});
  Attributes attributes{{"offset", positions->offset}};
  if (const auto scale = m.number("scale")) attributes.emplace("scale", static_cast<float>(*scale));
  Outcome outcome(
      b.node(std::string(kAttuneDomain), "PositionEmbedding", std::move(inputs), 1, std::move(attributes))->output());
  return outcome.detail(positions->tokens ? "positions count tokens" : "positions in order");
}

}  // namespace

size_t fuse_position_embedding(PassContext& context) {
  Graph& outermost = *context.model.graph;
  const std::vector<pattern::Rule> list = {
      {"fuse_position_embedding", sum_pattern(), [&](const Match& m, Builder& b) { return rewrite(m, b, outermost); }}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
