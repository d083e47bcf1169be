// activation(x W + b) + residual  =  Linear(x, W, b, residual; activation)
#include <fmt/format.h>

#include "passes/activation_patterns.h"
#include "passes/attention_node.h"
#include "passes/node_facts.h"
#include "passes/passes.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

// Inputs of ai.attune::Linear.
enum LinearInput : size_t { kStates, kWeight, kBias, kResidual };

Value* linear(Builder& b, std::vector<Value*> inputs, Attributes attributes) {
  return b.node(std::string(kAttuneDomain), "Linear", std::move(inputs), 1, std::move(attributes))->output();
}

bool is_weight(const Value& v, const Value& x) {
  return v.constant() && v.tensor_type().rank() == 2 && is_float(x.element_type());
}

// An ai.attune::Linear, captured as "linear".
Pat any_linear() {
  return Op("Linear", "linear").domain(std::string(kAttuneDomain)).further_inputs()(any("x"), any("weight"));
}

// --- products

Outcome rewrite_product(const Match& m, Builder& b) {
  const Value *x = m["x"], *weight = m["weight"];
  if (!is_weight(*weight, *x))
    return m.refuse("weight", fmt::format("{} is not a constant matrix of floats", weight->type().to_string()));
  if (x->tensor_type().rank() < 2) return m.refuse("x", "has no rows");
  return linear(b, {m["x"], m["weight"]}, {});
}

Outcome rewrite_bias(const Match& m, Builder& b) {
  const Node& n = *m.node("linear");
  if (n.input(kBias) || n.input(kResidual) || n.has("activation"))
    return m.refuse("linear", "has a bias, activation or residual already");
  if (!is_constant_vector(*m["bias"], n.output()->tensor_type().dim(-1)))
    return m.refuse("bias", "is not a constant vector of the layer's width");
  return linear(b, {n.input(kStates), n.input(kWeight), m["bias"]}, n.attributes());
}

Pat gemm_pattern() {
  const auto gemm = [] {
    return Op("Gemm", "gemm")
        .attr_or("alpha", 1.0F, 1.0F)
        .attr_or("beta", 1.0F, 1.0F)
        .attr_or("transA", int64_t{0}, int64_t{0});
  };
  Pat x = any("x"), weight = any("weight");
  return one_of("biased", {gemm()(x, weight, any("bias")), gemm()(x, weight)});
}

Outcome rewrite_gemm(const Match& m, Builder& b) {
  const Value *x = m["x"], *weight = m["weight"];
  if (!is_weight(*weight, *x)) return m.refuse("weight", "is not a constant matrix of floats");
  const int64_t transposed = m.node("gemm")->attr_int("transB", 0);
  const Dim width = weight->tensor_type().dim(transposed != 0 ? 0 : 1);
  Value* bias = m["bias"];
  if (bias && !is_constant_vector(*bias, width))
    return m.refuse("bias", "is not a constant vector of the layer's width");
  Attributes attributes;
  if (transposed != 0) attributes["transposed"] = int64_t{1};
  return linear(b, {m["x"], m["weight"], bias}, std::move(attributes));
}

// --- activations

pattern::Rule activation_rule(const ActivationPattern& activation) {
  return {"fuse_activation", activation.pattern,
          [name = std::string(activation.name)](const Match& m, Builder& b) -> Outcome {
            const Node& n = *m.node("linear");
            if (n.input(kResidual) || n.has("activation"))
              return m.refuse("linear", "has an activation or residual already");
            Attributes attributes = n.attributes();
            attributes["activation"] = name;
            Outcome outcome(linear(b, {n.inputs().begin(), n.inputs().end()}, std::move(attributes)));
            return outcome.detail(name);
          }};
}

// --- residuals

pattern::Rule residual_rule() {
  return {"fuse_residual", Op("Add")(any_linear(), any("residual")), [](const Match& m, Builder& b) -> Outcome {
            const Node& n = *m.node("linear");
            const auto &residual = m["residual"]->tensor_type().shape, &product = n.output()->tensor_type().shape;
            if (n.input(kResidual)) return m.refuse("linear", "has a residual already");
            if (!residual || residual != product)
              return m.refuse("residual", "is not of the shape of the layer's result");
            return linear(b, {n.input(kStates), n.input(kWeight), n.input(kBias), m["residual"]}, n.attributes());
          }};
}

}  // namespace

size_t fuse_linear(PassContext& context) {
  std::vector<pattern::Rule> list = {{"fuse_linear", Op("MatMul")(any("x"), any("weight")), rewrite_product},
                                     {"fuse_linear", gemm_pattern(), rewrite_gemm},
                                     {"fuse_linear", Op("Add")(any_linear(), any("bias")), rewrite_bias}};
  for (const ActivationPattern& activation : activations_of(any_linear())) list.push_back(activation_rule(activation));
  size_t changes = pattern::apply_rules(list, context);
  const std::vector<pattern::Rule> residual = {residual_rule()};
  return changes + pattern::apply_rules(residual, context);
}

}  // namespace attune
