// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e) w + b  =  layer normalization
// x / sqrt(mean(x^2) + e) w                              =  rms normalization
// normalization(x + y)                                   =  ResidualNormalization(x, y), which gives the sum, too
#include <fmt/format.h>

#include "passes/attention_node.h"
#include "passes/passes.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::constant;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::optional;
using pattern::Outcome;
using pattern::Pat;

constexpr const char* kResidualNormalization = "ResidualNormalization";

bool keeps_last_axis_mean(const Value& v, const Inference& inference) {
  const Node& n = *v.producer();
  if (n.attr_int("keepdims", 1) != 1) return false;
  std::vector<int64_t> axes = n.attr_ints("axes");
  if (n.input(1)) {
    const auto known = inference.constant_integers(n.input(1));
    if (!known) return false;
    axes = *known;
  }
  const int rank = n.input(0)->tensor_type().rank();
  return axes.size() == 1 && (axes[0] == -1 || (rank > 0 && axes[0] == rank - 1));
}

Pat mean(const Pat& x) {
  return where(Op("ReduceMean").further_inputs()(x), "a mean over the last axis that keeps it", keeps_last_axis_mean);
}

Pat square(const Pat& x) { return one_of("square", {Op("Pow")(x, constant(2)), Op("Mul")(x, x)}); }

// x / sqrt(mean(x^2) + epsilon), in the ways it is written.
Pat by_root_mean_square(const Pat& x) {
  Pat root = Op("Sqrt")(Op("Add")(mean(square(x)), pattern::scalar("epsilon")));
  Pat inverse = one_of("inverse", {Op("Reciprocal")(root), Op("Div")(constant(1), root)});
  return one_of("quotient", {Op("Div")(x, root), Op("Mul")(x, inverse)});
}

// 16-bit states are often normalized in float32, and cast back before or after the scale.
Pat rms_pattern() {
  Pat wide = one_of("wide", {Op("Cast", "widened").shared()(any("narrow x")), any("x")});
  Pat normalized = optional(Op("Cast", "narrowed"), by_root_mean_square(wide));
  return Op("Mul", "scaled")(normalized, any("scale"));
}

Pat layer_pattern() {
  Pat x = any("x");
  Pat normalized = by_root_mean_square(Op("Sub")(x, mean(x)));
  return Op("Add", "shifted")(Op("Mul", "scaled")(normalized, any("scale")), any("bias"));
}

// Constant vectors as long as the last axis, which is all that the nodes take.
std::optional<Outcome> check_parameters(const Match& m, const Value& x) {
  const Dim width = x.tensor_type().dim(-1);
  for (const char* name : {"scale", "bias"}) {
    const Value* v = m[name];
    if (v && (!v->constant() || v->tensor_type().rank() != 1 || !(v->tensor_type().dim(0) == width)))
      return m.refuse(name, fmt::format("{} is not a constant vector as long as the last axis of {}",
                                        v->type().to_string(), x.type().to_string()));
  }
  if (!is_float(x.element_type())) return m.refuse("x", "is not a float tensor");
  return std::nullopt;
}

Attributes attributes_of(const Match& m, const char* kind) {
  return {{"kind", std::string(kind)}, {"epsilon", static_cast<float>(*m.number("epsilon"))}};
}

// The states to normalize: before the Cast to float32, if there is one back.
Value* states_of(const Match& m) {
  if (!m.node("widened")) return m["x"];
  return m.node("narrowed") ? m["narrow x"] : m.node("widened")->output();
}

Outcome rewrite_rms(const Match& m, Builder& b) {
  Value* x = states_of(m);
  if (auto refusal = check_parameters(m, *x)) return *refusal;
  if (x->element_type() != m.root()->element_type()) return m.refuse("scale", "is of another type than the states");
  const Node* n =
      b.node(std::string(kAttuneDomain), kResidualNormalization, {x, nullptr, m["scale"]}, 1, attributes_of(m, "rms"));
  return n->output();
}

// LayerNormalization is standard from this opset on.
constexpr int64_t kLayerNormalizationOpset = 17;

Outcome rewrite_layer(const Match& m, Builder& b) {
  if (auto refusal = check_parameters(m, *m["x"])) return *refusal;
  if (b.opset() >= kLayerNormalizationOpset)
    return b.op("LayerNormalization", {m["x"], m["scale"], m["bias"]},
                {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(*m.number("epsilon"))}});
  const Node* n = b.node(std::string(kAttuneDomain), kResidualNormalization, {m["x"], nullptr, m["scale"], m["bias"]},
                         1, attributes_of(m, "layer"));
  return n->output();
}

// --- the sum in front

Pat residual_pattern() {
  Pat sum = Op("Add", "sum").replaced()(any("left"), any("right"));
  Pat ours = Op(kResidualNormalization, "ours").domain(std::string(kAttuneDomain)).further_inputs()(sum);
  Pat standard = Op("LayerNormalization", "standard").axis(-1).further_inputs()(sum);
  return one_of("normalization", {ours, standard});
}

Outcome rewrite_residual(const Match& m, Builder& b) {
  const Node& n = *(m.node("ours") ? m.node("ours") : m.node("standard"));
  const auto &left = m["left"]->tensor_type().shape, &right = m["right"]->tensor_type().shape;
  if (!left || left != right)
    return m.refuse("sum", fmt::format("{} and {} are not of one shape", m["left"]->type().to_string(),
                                       m["right"]->type().to_string()));
  Attributes attributes;
  Value *scale = n.input(1), *bias = n.input(2);
  if (m.node("ours")) {
    if (n.input(1)) return m.refuse("ours", "has a residual already");
    attributes = n.attributes();
    scale = n.input(2);
    bias = n.input(3);
  } else {
    if (is_used(n, 1) || is_used(n, 2)) return m.refuse("standard", "its mean or deviation is used");
    attributes = {{"kind", std::string("layer")}, {"epsilon", n.attr_float("epsilon", 1e-5F)}};
  }
  Value* sum = m["sum"];
  const bool sum_wanted = sum->uses().size() > 1 || sum->is_graph_output();
  const Node* now = b.node(std::string(kAttuneDomain), kResidualNormalization, {m["left"], m["right"], scale, bias},
                           sum_wanted ? 2 : 1, std::move(attributes));
  Outcome outcome(now->output());
  if (sum_wanted) outcome.also(sum, now->output(1));
  return outcome;
}

}  // namespace

size_t fuse_normalization(PassContext& context) {
  // The second pattern is a part of the first.
  const std::vector<pattern::Rule> layer = {{"fuse_layer_normalization", layer_pattern(), rewrite_layer}};
  const std::vector<pattern::Rule> rms = {{"fuse_rms_normalization", rms_pattern(), rewrite_rms}};
  const size_t layers = pattern::apply_rules(layer, context);
  return layers + pattern::apply_rules(rms, context);
}

size_t fuse_residual_normalization(PassContext& context) {
  const std::vector<pattern::Rule> list = {{"fuse_residual_normalization", residual_pattern(), rewrite_residual}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
