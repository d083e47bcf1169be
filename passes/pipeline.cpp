#include <fmt/format.h>

#include "passes/attention_conversions.h"
#include "passes/passes.h"

namespace attune {
namespace {

// Clean-up that fusions leave work for: what they bypassed, and what became equal.
size_t simplify(PassContext& context) {
  size_t total = 0;
  for (size_t changes = 1; changes > 0; total += changes)
    changes = fold_constants(context) + eliminate_identities(context) + eliminate_common_subexpressions(context);
  return total + eliminate_dead(context);
}

constexpr Pass kPipeline[] = {
    {"inline_functions", "Replaces calls of model-local functions by their bodies.", inline_functions},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"raise_attention", "Attention operators of other domains become ours.", raise_attention},
    {"inline_static_if", "Replaces an If whose condition is known by its branch.", inline_static_if},
    {"tie_sizes", "Sizes of inputs under two names that the graph forces to be one get one name.", tie_sizes},
    {"untie_sizes", "A mask whose size is not that of the states gets a name of its own for it.", untie_sizes},
    {"simplify_shapes", "Computes integers that depend on sizes of inputs from these alone.", simplify_shapes},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"normalize_folded_rows", "Linear layers over rows that were folded or regrouped work on rows as they were.",
     normalize_folded_rows},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"normalize_forms", "Rewrites spellings of exporters to the one that the fusion rules know.", normalize_forms},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"fuse_attention", "Scores, mask, softmax and values become one Attention.", fuse_attention},
    {"fuse_additive_attention", "Additive scores, mask, softmax and values become one Attention.",
     fuse_additive_attention},
    {"explain_softmaxes", "Says of each softmax that is left why no attention rule took it.", explain_softmaxes},
    {"explain_normalizations", "Says of weights that are normalised by hand why they are no softmax.",
     explain_normalizations},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"simplify_shapes", "Computes integers that depend on sizes of inputs from these alone.", simplify_shapes},
    {"fuse_attention_groups", "Key heads repeated for groups of query heads are given once.", fuse_attention_groups},
    {"fuse_attention_cache", "Concatenations with earlier keys and values move into Attention.", fuse_attention_cache},
    {"fuse_attention_scale", "Factors of queries and keys become the scale of Attention.", fuse_attention_scale},
    {"fuse_attention_heads", "The reshapes and transposes of heads move into Attention.", fuse_attention_heads},
    {"normalize_projections", "Transposes of batch and time move in front of linear layers.", normalize_projections},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
    {"fuse_attention_scale", "Factors of queries and keys become the scale of Attention.", fuse_attention_scale},
    {"fuse_qkv_projection", "The linear layers in front of queries, keys and values move into Attention.",
     fuse_qkv_projection},
    {"explain_projections", "Says of linear layers and heads in front of an Attention why they are not inside.",
     explain_projections},
    {"simplify_masks", "Masks become causal, a condition over keys, or nothing, where that is proven.", simplify_masks},
    {"fuse_position_bias", "A table looked up by T5's buckets of distances becomes one node.", fuse_position_bias},
    {"fuse_position_embedding", "The look-up of positions in a table, scale and sum with the states become one node.",
     fuse_position_embedding},
    {"fuse_normalization", "Layer and root-mean-square normalization written out become one node.", fuse_normalization},
    {"fuse_residual_normalization", "A sum in front of a normalization moves into it.", fuse_residual_normalization},
    {"fuse_linear", "Bias, activation and residual move into the linear layer.", fuse_linear},
    {"fuse_gelu", "GELU written out, behind no linear layer, becomes one node.", fuse_gelu},
    {"simplify", "Folds constants, removes nodes without effect, merges equal ones.", simplify},
};

// Sizes of inputs and outputs that were dynamic and are not any more.
void note_fixed_sizes(std::span<Value* const> values, const std::vector<ValueType>& before, const char* what,
                      Report& report) {
  for (size_t i = 0; i < values.size() && i < before.size(); ++i) {
    const auto &was = before[i].tensor.shape, &is = values[i]->tensor_type().shape;
    if (!was) continue;  // what is known stays known
    for (size_t axis = 0; axis < was->size(); ++axis)
      if (!(*was)[axis].constant() && (*is)[axis].constant())
        report.notes.push_back(fmt::format("{} '{}': dimension {} was '{}', is {}", what, values[i]->name(), axis,
                                           (*was)[axis].to_string(), (*is)[axis].to_string()));
  }
}

std::vector<ValueType> types_of(std::span<Value* const> values) {
  std::vector<ValueType> types;
  for (const Value* v : values) types.push_back(v->type());
  return types;
}

// Makes sizes of outputs unknown that are declared as numbers. They prove nothing: exporters leave the example's sizes
// there, and hosts run such models at others.
void forget_sizes(std::span<Value* const> outputs) {
  for (Value* v : outputs) {
    if (!v->producer() || !v->tensor_type().shape) continue;
    ValueType type = v->type();
    for (Dim& d : *type.tensor.shape)
      if (d.constant()) d = Dim();
    v->set_type(std::move(type));
  }
}

// Declares them again, where nothing was found.
void restore_sizes(std::span<Value* const> outputs, const std::vector<ValueType>& declared) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!declared[i].tensor.shape) continue;
    const Dims& was = *declared[i].tensor.shape;
    ValueType type = outputs[i]->type();
    auto& is = type.tensor.shape;
    if (!is) is = Dims(was.size());
    for (size_t axis = 0; axis < was.size(); ++axis) {
      Dim& d = (*is)[axis];
      if (was[axis].constant() && (!d.known() || d.as_symbol().starts_with('?'))) d = was[axis];
    }
    outputs[i]->set_type(std::move(type));
  }
}

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

void optimize(Model& model, Report& report, const PassOptions& options) {
  PassContext context{model, report, options};
  const auto inputs = types_of(model.graph->inputs()), outputs = types_of(model.graph->outputs());
  forget_sizes(model.graph->outputs());
  for (const Pass& pass : pipeline())
    report.pass_counts[std::string(pass.name)] +=
        within([&] { return "pass " + std::string(pass.name); }, [&] { return pass.run(context); });
  if (!model.opset_imports.contains("ai.attune")) model.opset_imports["ai.attune"] = 1;
  model.graph->sort();
  model.graph->verify();
  for (const std::string& rule : report.endless_rules)
    report.notes.push_back(fmt::format("rule {} was stopped: it matches what it gives (a mistake of attune)", rule));
  restore_sizes(model.graph->outputs(), outputs);
  note_fixed_sizes(model.graph->inputs(), inputs, "input", report);
  note_fixed_sizes(model.graph->outputs(), outputs, "output", report);
}

}  // namespace attune
