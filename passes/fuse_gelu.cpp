// 0.5 x (1 + erf(x / sqrt(2)))  =  Gelu(x), and its approximation by tanh; what stands behind no linear layer
#include <string_view>
#include "passes/activation_patterns.h"
#include "passes/passes.h"
#include "passes/pattern/rule.h"

namespace attune {
namespace {

using pattern::Builder;
using pattern::Match;
using pattern::Outcome;

constexpr int64_t kGeluOpset = 20;  // Gelu is standard from here on

pattern::Rule gelu(const ActivationPattern& activation, const char* approximate) {
  return {"fuse_gelu", activation.pattern, [approximate](const Match& m, Builder& b) -> Outcome {
            if (b.opset() < kGeluOpset) return m.refuse("x", "the model's opset has no Gelu");
            if (m.root()->producer()->is("Gelu")) return m.refuse("x", "is a Gelu already");
            return b.op("Gelu", {m["x"]}, {{"approximate", std::string(approximate)}});
          }};
}

}  // namespace

size_t fuse_gelu(PassContext& context) {
  std::vector<pattern::Rule> list;
  for (const ActivationPattern& activation : activations_of(pattern::any("x"))) {
    if (activation.name == std::string_view("gelu")) list.push_back(gelu(activation, "none"));
    if (activation.name == std::string_view("gelu_tanh")) list.push_back(gelu(activation, "tanh"));
  }
  return pattern::apply_rules(list, context);
}

}  // namespace attune
