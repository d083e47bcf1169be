// Weights that are normalised by hand in another way than a softmax, or not at all, in front of the product with
// values, are no attention that a rule takes, and neither is linear attention, which sums over positions before queries
// come. The report says of each in what it differs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "passes/attention_node.h"
#include "passes/node_facts.h"
#include "passes/passes.h"

namespace attune {
namespace {

constexpr int kMaxSteps = 8;

// The step that makes weights positive, behind masks and casts.
const Node* positive_step(const Value* v, int depth = 0) {
  constexpr std::array kPositive{"Exp", "Sigmoid", "Relu", "Softplus", "Abs", "HardSigmoid", "Elu"};
  constexpr std::array kKept{"Cast", "Identity", "Mul",       "Where",   "Add",      "Clip",
                             "Max",  "Reshape",  "Unsqueeze", "Squeeze", "Transpose"};
  const Node* n = v->producer();
  if (!n || depth > kMaxSteps) return nullptr;
  if (is_one_of(*n, kPositive)) return n;
  if (n->is("MatMul")) {  // of features that are positive
    return positive_step(n->input(1), depth + 1) ? positive_step(n->input(0), depth + 1) : nullptr;
  }
  if (!is_one_of(*n, kKept)) return nullptr;
  for (const Value* input : n->inputs())
    if (const Node* found = input ? positive_step(input, depth + 1) : nullptr) return found;
  return nullptr;
}

// The sum of weights that a divisor is computed from.
const Node* sum_behind(const Value* v, int depth = 0) {
  constexpr std::array kSums{"ReduceSum", "ReduceL1"};
  constexpr std::array kKept{"Cast",  "Identity", "Add",       "Sub",     "Clip",  "Max",
                             "Where", "Reshape",  "Unsqueeze", "Squeeze", "Expand"};
  const Node* n = v->producer();
  if (!n || depth > kMaxSteps) return nullptr;
  if (is_one_of(*n, kSums) && positive_step(n->input(0))) return n;
  if (!is_one_of(*n, kKept)) return nullptr;
  for (const Value* input : n->inputs())
    if (const Node* found = input ? sum_behind(input, depth + 1) : nullptr) return found;
  return nullptr;
}

// Whether `v` goes into a product with values, or a sum of products.
bool is_multiplied(const Value& v, int depth = 0) {
  constexpr std::array kProducts{"MatMul", "Einsum", "Gemm"};
  constexpr std::array kKept{"Cast",    "Identity",  "Mul",     "Where",     "Reshape",
                             "Squeeze", "Unsqueeze", "Dropout", "Transpose", "Expand"};
  for (const Use& u : v.uses()) {
    if (is_one_of(*u.node, kProducts)) return true;
    if (u.node->is("ReduceSum") && depth > 0) return true;
    if (depth < kMaxSteps && is_one_of(*u.node, kKept) && u.node->output() &&
        is_multiplied(*u.node->output(), depth + 1))
      return true;
  }
  return false;
}

// The values that `v` is a product with weights of, where those are summed by `sum`.
bool is_product_of(const Value* v, const Node& sum, int depth = 0) {
  constexpr std::array kKept{"MatMul",   "Einsum",  "ReduceSum", "Mul",     "Cast",
                             "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze"};
  if (v == sum.input(0)) return true;
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps || !is_one_of(*n, kKept)) return false;
  return std::any_of(n->inputs().begin(), n->inputs().end(),
                     [&](const Value* input) { return is_product_of(input, sum, depth + 1); });
}

// Whether weights are those of a softmax that something changed: the report of that softmax says what.
bool is_behind_softmax(const Value* v, int depth = 0) {
  constexpr std::array kKept{"Cast",  "Identity", "Mul",     "Div",       "Add",    "Sub",
                             "Where", "Reshape",  "Squeeze", "Unsqueeze", "Expand", "Transpose"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return false;
  if (n->is("Softmax")) return true;
  return is_one_of(*n, kKept) && std::any_of(n->inputs().begin(), n->inputs().end(),
                                             [&](const Value* input) { return is_behind_softmax(input, depth + 1); });
}

struct Normalization {
  const Value* weights;  // what is divided
  const Value* divisor;
  const Node* sum;
};

std::optional<Normalization> normalization_of(const Node& n) {
  Normalization found{n.input(0), nullptr, nullptr};
  if (n.is("Div")) {
    found.divisor = n.input(1);
  } else if (n.is("Mul")) {
    for (const size_t i : {0, 1})
      if (const Node* inverse = n.input(i) ? n.input(i)->producer() : nullptr; inverse && inverse->is("Reciprocal")) {
        found.divisor = inverse->input(0);
        found.weights = n.input(1 - i);
      }
  }
  if (found.divisor) found.sum = sum_behind(found.divisor);
  if (!found.sum || is_behind_softmax(found.sum->input(0)) || !is_product_of(found.weights, *found.sum))
    return std::nullopt;
  return !positive_step(found.weights) || is_multiplied(*n.output()) ? std::optional(found) : std::nullopt;
}

bool reduces_last_axis_alone(const Node& sum, const Inference& inference) {
  std::vector<int64_t> axes = sum.attr_ints("axes");
  if (sum.input(1)) axes = inference.constant_integers(sum.input(1)).value_or(std::vector<int64_t>{});
  const int rank = sum.input(0)->tensor_type().rank();
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1);
}

std::string reason_of(const Normalization& n, const Inference& inference) {
  constexpr const char* kWanted = "; export it as Softmax over the last axis, with masks in front of it";
  const Node& step = *positive_step(n.sum->input(0));
  const Node* divisor = n.divisor->producer();
  const Node* summed = n.sum->input(0)->producer();
  if (summed && summed->is("MatMul"))
    return fmt::format("weights are products of features that {} makes positive, not exponentials of scores{}",
                       step.label(), kWanted);
  if (step.type() != "Exp")
    return fmt::format("weights are made positive by {}, not by Exp as in a softmax{}", step.label(), kWanted);
  if (!reduces_last_axis_alone(*n.sum, inference))
    return fmt::format("{} sums weights over other axes than the last one{}", n.sum->label(), kWanted);
  if (divisor != n.sum && divisor->is("Add")) {
    for (const Value* v : divisor->inputs())
      if (const auto number = inference.scalar(v))
        return fmt::format("{} adds {:g} to the sum of exponentials, which in a softmax is the only divisor{}",
                           divisor->label(), *number, kWanted);
  }
  if (divisor != n.sum)
    return fmt::format("the divisor is {}, not the sum of exponentials alone{}", divisor->label(), kWanted);
  if (n.sum->input(0)->producer() != &step)
    return fmt::format(
        "exponentials go through {} before they are summed, where a softmax takes a mask in front of Exp{}",
        n.sum->input(0)->producer()->label(), kWanted);
  if (n.weights != n.sum->input(0))
    return fmt::format("the product with the values is divided, not the weights{}", kWanted);
  return fmt::format("is not exp(x) / sum(exp(x)), or exp(x - max(x)) in place of exp(x){}", kWanted);
}

// --- q (k^T v): the sum over positions comes first

constexpr const char* kWithoutSoftmax =
    "multiplies queries with {}, where keys and values were already summed over positions: linear attention, which "
    "has no softmax over scores, is no Attention and stays as it is; export softmax(scores) times values for one";

// Behind steps that keep the form of a product.
const Node* product_behind(const Value* v, int depth = 0) {
  constexpr std::array kKept{"Cast", "Identity", "Mul", "Div", "Reshape", "Squeeze", "Unsqueeze", "Dropout"};
  const Node* n = v->producer();
  if (!n || n->is("MatMul")) return n;
  return depth < kMaxSteps && is_one_of(*n, kKept) ? product_behind(n->input(0), depth + 1) : nullptr;
}

bool is_of_states(const Node& product) {
  return !product.input(0)->constant() && !product.input(1)->constant() && product.output()->tensor_type().rank() >= 3;
}

// The product of keys and values that `n` multiplies queries with; null if it is none. It is a matrix of two widths,
// each a constant, while positions may be any number.
const Node* summed_over_positions(const Node& n) {
  if (!is_one_of(n, std::array{"MatMul", "Einsum"})) return nullptr;
  for (size_t i = 1; i < n.inputs().size(); ++i) {
    const Node* inner = product_behind(n.input(i));
    if (!inner || !is_of_states(*inner) || n.input(0)->constant()) continue;
    const TensorType& matrix = inner->output()->tensor_type();
    const bool of_widths = matrix.dim(-1).constant() && matrix.dim(-2).constant();
    if (of_widths && !inner->input(1)->tensor_type().dim(-2).constant()) return inner;
  }
  return nullptr;
}

// --- f(q k^T) v: weights that are not normalized

constexpr const char* kWithoutNormalization =
    "multiplies the values with {}, which are not normalized by a softmax: this is no Attention and stays as it is; "
    "export softmax(scores) times values for one";

struct Scores {
  const Node* product = nullptr;   // of queries and keys, or of states and one column
  const Node* function = nullptr;  // the last one that is more than a mask or a scale; null: there is none
};

bool gives_scores(const Node& product) {
  const TensorType& right = product.input(1)->tensor_type();
  return is_of_states(product) || (product.input(1)->constant() && right.rank() == 2 && right.dim(1).is(1));
}

// The scores that `weights` are computed from, one by one.
std::optional<Scores> scores_behind(const Value* weights, int depth = 0) {
  constexpr std::array kFunctions{"Hardmax",     "LogSoftmax", "Sigmoid", "Relu", "Tanh", "Abs", "Softplus",
                                  "HardSigmoid", "LeakyRelu",  "Elu",     "Exp",  "Pow",  "Gelu"};
  constexpr std::array kKept{"Cast", "Identity", "Mul",     "Div",       "Add", "Sub", "Neg",    "Where",
                             "Clip", "Reshape",  "Squeeze", "Unsqueeze", "Max", "Min", "Dropout"};
  const Node* n = weights->producer();
  if (!n || depth > kMaxSteps || normalization_of(*n)) return std::nullopt;
  if (n->is("MatMul")) return gives_scores(*n) ? std::optional(Scores{n}) : std::nullopt;
  const bool is_function = is_one_of(*n, kFunctions);
  if (!is_function && !is_one_of(*n, kKept)) return std::nullopt;
  for (const Value* input : n->inputs()) {
    auto found = input ? scores_behind(input, depth + 1) : std::nullopt;
    if (!found) continue;
    if (is_function) found->function = n;
    return found;
  }
  return std::nullopt;
}

std::optional<Scores> unnormalized_scores(const Node& context) {
  if (!context.is("MatMul") || context.input(1)->constant() || is_behind_softmax(context.input(0))) return std::nullopt;
  const auto& users = context.output()->uses();
  if (std::any_of(users.begin(), users.end(), [](const Use& u) { return normalization_of(*u.node).has_value(); }))
    return std::nullopt;
  return scores_behind(context.input(0));
}

std::string reason_of(const Scores& scores) {
  return fmt::format(kWithoutNormalization, scores.function ? "the weights of " + scores.function->label()
                                                            : "the scores of " + scores.product->label());
}

}  // namespace

size_t explain_normalizations(PassContext& context) {
  const Inference inference(context.model);
  context.model.graph->for_each_node([&](const Node& n) {
    if (const Node* summed = summed_over_positions(n))
      context.report.near_misses.push_back({"fuse_attention", n.label(), n.type(), std::string(n.output()->name()),
                                            fmt::format(kWithoutSoftmax, summed->label())});
    if (const auto scores = unnormalized_scores(n))
      context.report.near_misses.push_back(
          {"fuse_attention", n.label(), n.type(), std::string(n.output()->name()), reason_of(*scores)});
    const auto found = n.output_count() > 0 && n.output() ? normalization_of(n) : std::nullopt;
    if (!found) return;
    context.report.near_misses.push_back(
        {"fuse_attention", n.label(), n.type(), std::string(n.output()->name()), reason_of(*found, inference)});
  });
  return 0;
}

}  // namespace attune
