// Softmaxes that no attention rule took. Where something stands between one and the products of an attention that no
// step of a pattern can name (rounding, sinks, heads that are mixed, blocks and windows of positions, factors of
// weights), the report says what it is, and what the export could do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

constexpr int kMaxSteps = 10;

bool contains(const Node& n, const char* part) { return n.type().find(part) != std::string::npos; }

// Also in quantized storage.
bool is_constant(const Value* v) {
  const Node* n = v ? v->producer() : nullptr;
  return !v || v->constant() || (n && n->is("DequantizeLinear") && n->input(0)->constant());
}

bool rounds(const Node& n) { return contains(n, "uantize") || contains(n, "QLinear") || contains(n, "Integer"); }

// The other operand of a product of which `index` is one; null where that is no operand, or `n` no product.
const Value* other_operand(const Node& n, size_t index) {
  const size_t second = n.is("QLinearMatMul") ? 3 : 1;
  if (!is_one_of(n, std::array{"MatMul", "Einsum", "QLinearMatMul", "MatMulInteger"})) return nullptr;
  return index == 0 ? n.input(second) : n.input(0);
}

bool is_of_states(const Node& product) {
  const Value* right = other_operand(product, 0);
  return right && !is_constant(right) && !is_constant(product.input(0));
}

// A step between scores and values that a rule knows.
bool keeps_weights(const Node& n) {
  if (n.is("Where")) {
    const Node* condition = n.input(0)->producer();
    return condition && is_one_of(*condition, std::array{"IsNaN", "Equal"});
  }
  return is_one_of(n, std::array{"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Expand"});
}

std::optional<int64_t> heads_of(const Node& softmax) {
  const TensorType& scores = softmax.input(0)->tensor_type();
  return scores.rank() == 4 ? scores.dim(1).constant() : std::nullopt;
}

// Whether `n` multiplies by a matrix of heads x heads (also as a convolution of size 1).
bool mixes_heads(const Node& n, const Node& softmax) {
  const auto heads = heads_of(softmax);
  if (!heads || *heads < 2 || !is_one_of(n, std::array{"MatMul", "Einsum", "Gemm", "Conv"})) return false;
  return std::any_of(n.inputs().begin(), n.inputs().end(), [&](const Value* v) {
    if (!v) return false;
    const TensorType& matrix = v->tensor_type();
    const bool is_matrix =
        matrix.rank() == 2 || (n.is("Conv") && matrix.rank() == 4 && matrix.dim(2).is(1) && matrix.dim(3).is(1));
    return is_matrix && matrix.dim(0).is(*heads) && matrix.dim(1).is(*heads);
  });
}

// The nodes between a softmax and a product of two states.
struct Way {
  std::vector<const Node*> steps;  // from the softmax on
  const Node* product = nullptr;
  size_t operand = 0;  // of the product, which the way leads to
  size_t changes = 0;  // steps that no rule knows
};

class WayToValues {
 public:
  explicit WayToValues(const Node& softmax) : softmax_(softmax) {}

  // The one with the fewest changes of the weights.
  std::optional<Way> find(const Value& weights, int depth = 0) const {
    std::optional<Way> best;
    for (const Use& u : weights.uses()) {
      const Value* other = other_operand(*u.node, u.index);
      if (other && other != &weights && !is_constant(other)) return Way{{}, u.node, u.index, 0};
      if (depth > kMaxSteps || !is_step(*u.node)) continue;
      auto way = find(*u.node->output(), depth + 1);
      if (!way) continue;
      way->steps.insert(way->steps.begin(), u.node);
      way->changes += keeps_weights(*u.node) ? 0 : 1;
      if (!best || way->changes < best->changes) best = std::move(way);
    }
    return best;
  }

 private:
  bool is_step(const Node& n) const {
    constexpr std::array kFunctions{"Mul",  "Div", "Add", "Sub",  "Pow",   "Clip",  "Max",   "Min",
                                    "Relu", "Abs", "Pad", "Conv", "Slice", "Where", "Floor", "Round"};
    return n.output() && (keeps_weights(n) || is_one_of(n, kFunctions) || rounds(n) || mixes_heads(n, softmax_));
  }

  const Node& softmax_;
};

class WayToScores {
 public:
  explicit WayToScores(const Node& softmax) : softmax_(softmax) {}

  std::optional<Way> find(const Value* scores, int depth = 0) const {
    const Node* n = scores->producer();
    if (!n || depth > kMaxSteps) return std::nullopt;
    if (is_of_states(*n)) return Way{{}, n, 0, 0};
    if (!is_step(*n)) return std::nullopt;
    for (const Value* input : n->inputs()) {
      auto way = is_constant(input) ? std::nullopt : find(input, depth + 1);
      if (!way) continue;
      way->steps.insert(way->steps.begin(), n);
      return way;
    }
    return std::nullopt;
  }

 private:
  bool is_step(const Node& n) const {
    constexpr std::array kFunctions{"Mul", "Div",  "Add", "Sub", "Where", "Clip",
                                    "Max", "Tanh", "Pad", "Min", "Slice", "Concat"};
    return keeps_weights(n) || is_one_of(n, kFunctions) || rounds(n) || mixes_heads(n, softmax_);
  }

  const Node& softmax_;
};

// --- what stands in the way

struct Finding {
  const Value* value;
  std::string step;  // of the pattern
  std::string reason;
};

const Node* first_of(const std::vector<const Node*>& steps, const std::function<bool(const Node&)>& is_wanted) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const Node* n) { return is_wanted(*n); });
  return found == steps.end() ? nullptr : *found;
}

constexpr const char* kWeights = "MatMul[0]";
constexpr const char* kValues = "MatMul[1]";
constexpr const char* kScores = "MatMul[0].Softmax[0]";

// In blocks of keys, each with its neighbours: parts of one tensor side by side.
const Node* neighbours_behind(const Value* v, int depth = 0) {
  constexpr std::array kKept{"Cast", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Concat"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps || !is_one_of(*n, kKept)) return nullptr;
  if (!n->is("Concat")) return neighbours_behind(n->input(0), depth + 1);
  std::map<const Value*, int> parts;
  for (const Value* input : n->inputs())
    if (const Node* part = input->producer(); part && is_one_of(*part, std::array{"Slice", "Gather"}))
      if (++parts[part->input(0)] > 1 && input->tensor_type().rank() > 4) return n;
  for (const Value* input : n->inputs())
    if (const Node* found = neighbours_behind(input, depth + 1)) return found;
  return nullptr;
}

bool is_exponential(const Value* v, int depth = 0) {
  constexpr std::array kKept{"Cast", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Mul", "Where"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return false;
  if (n->is("Exp")) return true;
  return is_one_of(*n, kKept) && std::any_of(n->inputs().begin(), n->inputs().end(),
                                             [&](const Value* input) { return is_exponential(input, depth + 1); });
}

bool is_exponential_factor(const Node& n) {
  return n.is("Mul") && (is_exponential(n.input(0)) || is_exponential(n.input(1)));
}

// Whether `n` multiplies all keys of a row by one number each that isn't known, or not the same for all rows.
bool scales_rows(const Node& n) {
  if (!is_one_of(n, std::array{"Mul", "Div"})) return false;
  return std::any_of(n.inputs().begin(), n.inputs().end(), [](const Value* v) {
    const TensorType& type = v->tensor_type();
    return type.rank() == 0 || (type.rank() > 0 && type.dim(-1).is(1));
  });
}

class Obstacle {
 public:
  explicit Obstacle(const Node& softmax)
      : softmax_(softmax),
        values_(WayToValues(softmax).find(*softmax.output())),
        scores_(WayToScores(softmax).find(softmax.input(0))) {}

  // One of those that have a name. None: the pattern's step says it.
  std::optional<Finding> named() const {
    if (!values_) return std::nullopt;
    for (const auto& look :
         {&Obstacle::rounding, &Obstacle::mixed_heads, &Obstacle::sink, &Obstacle::blocks, &Obstacle::windows})
      if (auto found = (this->*look)()) return found;
    return std::nullopt;
  }

  // A change of the weights.
  std::optional<Finding> change() const {
    if (!values_ || values_->changes == 0) return std::nullopt;
    const Node* last = nullptr;
    for (const Node* n : values_->steps)
      if (!keeps_weights(*n)) last = n;
    const bool is_window = first_of(values_->steps, is_exponential_factor) != nullptr;
    constexpr const char* kWindow =
        "a window over positions that the weights are multiplied with, as the Gaussian of local-p attention, is no "
        "mask; in front of the softmax, as logarithm added to the scores, it would be, but is another model then";
    constexpr const char* kMask =
        "what hides keys belongs in front of the softmax, as a mask, and a factor of all keys behind the product";
    return Finding{last->output(), kWeights,
                   fmt::format("the weights are changed by {} between softmax and the product with the values, which "
                               "in an Attention takes them as they are; {}",
                               last->label(), is_window ? kWindow : kMask)};
  }

  // A factor of scores, the value of that name, that queries could have instead.
  const Node* unknown_scale(const std::string& name) const {
    const Node* scale = scores_ ? first_of(scores_->steps, scales_rows) : nullptr;
    const auto is_factor = [&](const Value* v) { return v->name() == name; };
    return scale && std::any_of(scale->inputs().begin(), scale->inputs().end(), is_factor) ? scale : nullptr;
  }

 private:
  std::optional<Finding> rounding() const {
    const Node* n = rounds(softmax_) ? &softmax_ : first_of(values_->steps, rounds);
    if (!n && rounds(*values_->product)) n = values_->product;
    const char *what = "weights", *between = "softmax and the product with the values", *step = kWeights;
    if (!n && scores_) {
      n = first_of(scores_->steps, rounds);
      if (!n && rounds(*scores_->product)) n = scores_->product;
      what = "scores", between = "the product of queries and keys and softmax", step = kScores;
    }
    if (!n) return std::nullopt;
    return Finding{
        n->output(), step,
        fmt::format("the {} are rounded to 8 or 16 bits by {} between {} (static quantization), which no Attention "
                    "does, so that fusing would change the numbers; quantize dynamically, or leave the attention's two "
                    "MatMuls and its Softmax out (nodes_to_exclude), or convert before quantizing",
                    what, n->label(), between)};
  }

  std::optional<Finding> mixed_heads() const {
    const auto mixes = [&](const Node& n) { return mixes_heads(n, softmax_); };
    const Node* behind = first_of(values_->steps, mixes);
    const Node* n = behind || !scores_ ? behind : first_of(scores_->steps, mixes);
    if (!n) return std::nullopt;
    return Finding{n->output(), behind ? kWeights : kScores,
                   fmt::format("{} mixes the {} of all heads (talking heads), where each head of an Attention is by "
                               "itself; a model without talking heads fuses, this one stays as it is",
                               n->label(), behind ? "weights" : "scores")};
  }

  // A column beside the scores whose weight is dropped, or other scores.
  std::optional<Finding> sink() const {
    const Node* slice = first_of(values_->steps, [](const Node& n) { return n.is("Slice"); });
    const Node* concat = scores_ ? first_of(scores_->steps, [](const Node& n) { return n.is("Concat"); }) : nullptr;
    if (!slice || !concat) return std::nullopt;
    const auto is_scores = [&](const Value* v) { return WayToScores(softmax_).find(v).has_value(); };
    if (std::count_if(concat->inputs().begin(), concat->inputs().end(), is_scores) > 1)
      return Finding{slice->output(), kWeights,
                     fmt::format("{} joins scores with several sets of keys, whose weights {} takes apart (global and "
                                 "local attention), where an Attention takes all keys along one axis; join keys and "
                                 "values in front of one product each, which is equal, and fuses",
                                 concat->label(), slice->label())};
    return Finding{slice->output(), kWeights,
                   fmt::format("{} puts a column beside the scores, whose weight {} drops (an attention sink), where "
                               "the weights of an Attention are of keys alone; give the sink a key and a value of "
                               "zeros, and its logit as an added mask of that key: this is equal, and fuses",
                               concat->label(), slice->label())};
  }

  std::optional<Finding> blocks() const {
    if (const Node* pad = first_of(values_->steps, [](const Node& n) { return n.is("Pad"); }))
      return Finding{pad->output(), kWeights,
                     "weights are padded and laid out in blocks of neighbouring positions in front of the product "
                     "with values (local attention), where an Attention takes all keys along one axis; export it as "
                     "full attention with a mask"};
    const Node* concat = neighbours_behind(other_operand(*values_->product, values_->operand));
    if (!concat) return std::nullopt;
    return Finding{concat->output(), kValues,
                   fmt::format("keys and values are laid out in blocks of neighbouring positions, each block beside "
                               "its neighbours by {} (local attention), and sizes don't show that there are as many "
                               "blocks of queries; export it for a constant number of positions, which is a multiple "
                               "of the block, or as full attention with a mask",
                               concat->label())};
  }

  // Scores unfolded to (images, windows, heads, T, S) for a mask of each window.
  std::optional<Finding> windows() const {
    if (!scores_) return std::nullopt;
    const auto rank = [](const Value* v) { return v->tensor_type().rank(); };
    const Node* add = first_of(scores_->steps, [&](const Node& n) { return n.is("Add") && rank(n.output()) == 5; });
    if (!add || rank(scores_->product->output()) != 4 || rank(softmax_.output()) != 4) return std::nullopt;
    return Finding{add->output(), kScores,
                   fmt::format("{} adds a mask of each window to scores that are reshaped to (images, windows, heads, "
                               "queries, keys) for it (shifted windows), where an Attention takes windows as batch; "
                               "repeat the mask for each image (Tile), and add it without the Reshapes",
                               add->label())};
  }

  const Node& softmax_;
  std::optional<Way> values_, scores_;
};

constexpr const char* kUnknownScale = "expected a known scalar";

void refine(NearMiss& miss, const Finding& found) {
  const std::string value(found.value->name());
  if (miss.value != value) {
    miss.value = value;
    miss.path = found.step;
  }
  miss.reason = found.reason;
}

}  // namespace

size_t explain_softmaxes(PassContext& context) {
  std::map<std::string, const Node*> softmaxes;
  auto& misses = context.report.near_misses;
  context.model.graph->for_each_node([&](const Node& n) {
    if (!n.output()) return;  // of an odd file, in which it is left out
    if (n.is("Softmax")) softmaxes[n.label()] = &n;
    if (!n.is("QLinearSoftmax", "com.microsoft")) return;
    const auto found = Obstacle(n).named();
    if (found)
      misses.push_back({"fuse_attention", n.label(), found->step, std::string(found->value->name()), found->reason});
  });
  const std::vector<pattern::Rule> anchored = {rules::attention(), rules::additive_attention()};
  for (auto& miss : pattern::explain_anchors(anchored, context.model)) {
    if (const auto softmax = softmaxes.find(miss.anchor); softmax != softmaxes.end()) {
      const Obstacle obstacle(*softmax->second);
      auto found = obstacle.named();
      if (!found) found = obstacle.change();
      if (found)
        refine(miss, *found);
      else if (const Node* scale = obstacle.unknown_scale(miss.value); scale && miss.reason.starts_with(kUnknownScale))
        miss.reason += fmt::format("; multiply the queries by the factor of {} instead, which is equal, and fuses",
                                   scale->label());
    }
    misses.push_back(std::move(miss));
  }
  return 0;
}

}  // namespace attune
