// scale x + table[start + t]                          =  PositionEmbedding(x, table, start)
// scale x + table[offset + token (start + sum token)] =  PositionEmbedding(x, table, start, tokens)
// whatever subgraph computes the rows: ranges, slices of the table or of constant positions, running sums of a mask
#include <fmt/format.h>

#include <algorithm>

#include "ops/evaluate.h"
#include "passes/attention_node.h"
#include "passes/node_facts.h"
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
    return pattern::optional(Op("DequantizeLinear", "dequantized").further_inputs(),
                             Op("Gather", "gather").attr_or("axis", int64_t{0}, int64_t{0})(table, rows));
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
  if (states.rank() < rank || !(rows.dim(-1) == states.dim(-1)) ||
      !(rows.dim(-2) == states.dim(-2) || asked == states.dim(-2)))
    return false;
  for (int axis = -3; axis >= -rank; --axis)
    if (!rows.dim(axis).is(1) && !(rows.dim(axis) == states.dim(axis))) return false;
  return true;
}

// Positions of tokens differ from sentence to sentence.
bool are_of_one_batch(const TensorType& tokens, const TensorType& states) {
  return states.rank() == 3 && tokens.dim(0) == states.dim(0);
}

// What a DequantizeLinear or Cast makes of constants, as such where kernels read it in its narrow storage, else
// computed now: nothing widens all of a table in each run. Null if it is no constant of rank 2.
Value* constant_table(Builder& b, Value* table) {
  if (table->tensor_type().rank() != 2) return nullptr;
  if (table->constant()) return table;
  const Node* n = table->producer();
  if (!n || (!n->is("DequantizeLinear") && !n->is("Cast"))) return nullptr;
  std::vector<Datum> inputs;
  for (const Value* v : n->inputs()) {
    if (v && !v->constant()) return nullptr;
    inputs.push_back(v ? Datum(*v->constant()) : Datum());
  }
  const Tensor* zero = n->is("DequantizeLinear") && n->input(2) ? n->input(2)->constant() : nullptr;
  const int64_t middle = zero && zero->type() == DataType::kUInt8 ? 128 : 0;
  const std::vector<int64_t> zeros = zero ? zero->to_int64() : std::vector<int64_t>{};
  if (std::all_of(zeros.begin(), zeros.end(), [&](int64_t z) { return z == middle; })) return table;
  return b.constant(evaluate(*n, b.opset(), std::move(inputs))[0].tensor().to_contiguous());
}

Outcome rewrite(const Match& m, Builder& b, Graph& outermost) {
  Value *x = m["x"], *table = m["table"];
  const Value* added = m.node("gather") ? m.node("gather")->output() : m.node("slice")->output();
  if (const Node* n = m.node("dequantized")) {
    for (size_t i = 1; i < n->inputs().size(); ++i)
      if (n->input(i) && n->input(i)->tensor_type().rank() != 0)
        return m.refuse("dequantized", "has several scales, and not one for the whole table");
    added = n->output();
    std::vector<Value*> inputs(n->inputs().begin(), n->inputs().end());
    inputs[0] = table;
    table = b.op("DequantizeLinear", std::move(inputs), n->attributes());
  }
  if (m.choice("lookup") == 1) {
    Dims of_positions = *dims(m["rows"]);
    of_positions.push_back(added->tensor_type().dim(-1));
    added = added->uses()[0].node->output();
    if (added->tensor_type().shape != of_positions) return m.refuse("lookup", "has another shape than its positions");
  }
  if (m.node("placed")) added = m.node("placed")->output();
  table = constant_table(b, table);
  if (!table)
    return m.refuse("table", fmt::format("{} is not a constant table of positions", m["table"]->type().to_string()));
  const auto positions = m.node("slice") ? sliced_positions(*m.node("slice"), 0, m.inference())
                                         : token_positions(*m["rows"], m.inference());
  if (!adds_row_by_row(added->tensor_type(), x->tensor_type(), positions->asked))
    return m.refuse("lookup", fmt::format("{} does not have one row for each state of {}", added->type().to_string(),
                                          x->type().to_string()));
  if (positions->tokens && !are_of_one_batch(positions->tokens->tensor_type(), x->tensor_type()))
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

// Rows of a table at positions that are clipped to it: behind the end they get its last row, which a PositionEmbedding
// refuses.
void explain_clipped(PassContext& context) {
  const Inference inference(context.model);
  context.model.graph->for_each_node([&](const Node& n) {
    const Node* clip = n.is("Gather") && n.input(1) ? n.input(1)->producer() : nullptr;
    if (!clip || (!clip->is("Clip") && !clip->is("Min")) || n.input(0)->tensor_type().rank() != 2) return;
    for (const Value* v : clip->inputs())
      if (v && token_positions(*v, inference) && !inference.scalar(v))
        context.report.notes.push_back(fmt::format(
            "{} looks up positions that {} clips to the table: it is no PositionEmbedding, which is an error "
            "beyond the end; export without the clip, and give no longer texts",
            n.label(), clip->label()));
  });
}

}  // namespace

size_t fuse_position_embedding(PassContext& context) {
  Graph& outermost = *context.model.graph;
  const std::vector<pattern::Rule> list = {
      {"fuse_position_embedding", sum_pattern(), [&](const Match& m, Builder& b) { return rewrite(m, b, outermost); }}};
  const size_t rewrites = pattern::apply_rules(list, context);
  explain_clipped(context);
  return rewrites;
}

}  // namespace attune
