#include "passes/pattern/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace attune::pattern {
namespace {

// The operators that a pattern's root may be.
void collect_roots(const PatNode& pat, std::set<std::pair<std::string, std::string>>& roots) {
  if (pat.kind == Kind::kOp) roots.emplace(pat.domain, pat.type);
  if (pat.kind == Kind::kOneOf)
    for (const Pat& p : pat.inputs) collect_roots(*p, roots);
}

std::string name_of(const Value* v) {
  if (!v) return "(none)";
  if (!v->name().empty()) return std::string(v->name());
  return v->producer() ? "output of " + v->producer()->label() : "(unnamed)";
}

bool is_anchor(const Rule& rule, const Node& n) {
  const std::string type = n.domain().empty() ? n.type() : n.domain() + "." + n.type();
  return std::find(rule.anchors.begin(), rule.anchors.end(), type) != rule.anchors.end();
}

// Erases `node` if nothing uses it, then what only it used. Gives the nodes erased.
std::unordered_set<const Node*> erase_dead(Node* node) {
  std::vector<Node*> queue{node};
  std::unordered_set<const Node*> gone;
  while (!queue.empty()) {
    Node* n = queue.back();
    queue.pop_back();
    if (!n || gone.contains(n)) continue;
    bool used = false;
    for (size_t i = 0; i < n->output_count(); ++i)
      used = used || (n->output(i) && (!n->output(i)->uses().empty() || n->output(i)->is_graph_output()));
    if (used) continue;
    for (Value* v : n->inputs())
      if (v) queue.push_back(v->producer());
    for (Graph* body : n->subgraphs())
      for (Value* v : body->captured()) queue.push_back(v->producer());
    gone.insert(n);
    n->graph()->erase(n);
  }
  return gone;
}

bool differ(const Dim& a, const Dim& b) { return a.constant() && b.constant() && !(a == b); }

bool has_other_shape(const Value& from, const Value& to) {
  const TensorType &was = from.tensor_type(), &is = to.tensor_type();
  if (!was.has_rank() || !is.has_rank()) return false;
  for (int axis = 0; axis < std::min(was.rank(), is.rank()); ++axis)
    if (differ(was.dim(axis), is.dim(axis))) return true;
  return was.rank() != is.rank();
}

// A constant of one number may have more axes, or more elements, than what it is combined with, and so does the result
// then; patterns don't look at them.
Outcome rewritten(const Rule& rule, const Match& m, Builder& builder, const Value& root) {
  Outcome outcome = rule.rewrite(m, builder);
  if (!outcome.root) return outcome;
  bool widened = has_other_shape(root, *outcome.root);
  for (const auto& [from, to] : outcome.others) widened = widened || has_other_shape(*from, *to);
  return widened ? m.refuse("result", "a constant of one number gives it more axes or elements") : outcome;
}

// More than the longest chain along which rewrites move. Rules that match what they give must not run for ever.
constexpr int kMaxRounds = 1000;

class Rewriter {
 public:
  Rewriter(std::span<const Rule> rules, PassContext& context)
      : rules_(rules), context_(context), inference_(context.model) {
    for (const Rule& rule : rules_) collect_roots(*rule.pattern, roots_.emplace_back());
  }

  size_t run() {
    int rounds = 0;
    while (rounds < kMaxRounds && context_.may_rewrite() && round(*context_.model.graph)) ++rounds;
    if (rounds == kMaxRounds) context_.report.endless_rules.push_back(context_.report.rewrites.back().rule);
    context_.model.graph->erase_unused();
    return rewrites_;
  }

 private:
  // One walk over a graph and its bodies. True if something was rewritten.
  bool round(Graph& graph) {
    bool changed = false;
    const std::vector<Node*> order = graph.topological_order();
    for (Node* n : order) erased_.erase(n);
    for (Node* node : order) {
      if (!context_.may_rewrite()) return changed;
      if (erased_.contains(node)) continue;
      for (Graph* body : node->subgraphs()) changed = round(*body) || changed;
      changed = rewrite(node) || changed;
    }
    return changed;
  }

  bool rewrite(Node* node) {
    for (size_t r = 0; r < rules_.size(); ++r) {
      if (!roots_[r].contains({node->domain(), node->type()})) continue;
      for (size_t i = 0; i < node->output_count(); ++i)
        if (node->output(i) && rewrite(rules_[r], node->output(i))) return true;
    }
    return false;
  }

  bool rewrite(const Rule& rule, Value* root) {
    Miss miss;
    const auto m = match(rule.pattern, root, inference_, context_.misses ? &miss : nullptr);
    Node* node = root->producer();
    if (!m) return missed(rule, *node, miss.path, miss.value, miss.reason());
    const std::string label = anchor_label(rule, *m, node);
    return within([&] { return "rule " + rule.name; },
                  [&] {
                    Builder builder(node, inference_, context_.model.opset());
                    Outcome outcome = rewritten(rule, *m, builder, *root);
                    if (!outcome.root) return missed(rule, *node, outcome.part, (*m)[outcome.part], outcome.reason);
                    builder.commit();
                    accept(rule, root, outcome, label);
                    return true;
                  });
  }

  // Gives false.
  bool missed(const Rule& rule, const Node& root, const std::string& path, const Value* value,
              const std::string& reason) {
    if (context_.misses) context_.misses->push_back({rule.name, root.label(), path, name_of(value), reason});
    return false;
  }

  void accept(const Rule& rule, Value* root, Outcome& outcome, const std::string& label) {
    ++rewrites_;
    Graph& graph = *root->graph();
    std::vector<Node*> replaced{root->producer()};
    Value* result = outcome.root;
    replace(graph, root, outcome.root);
    for (const auto& [from, to] : outcome.others) {
      if (from->producer()) replaced.push_back(from->producer());
      replace_where_acyclic(from, to);
    }
    for (Node* n : replaced)
      if (!erased_.contains(n)) erased_.merge(erase_dead(n));
    context_.report.rewrites.push_back({rule.name, label, name_of(result), outcome.details});
  }

  void replace(Graph& graph, Value* from, Value* to) {
    if (from == to) return;
    std::vector<Node*> users;
    for (const Use& u : from->uses()) users.push_back(u.node);
    if (to->name().empty() && !from->is_graph_output()) {
      to->set_name(std::string(from->name()));
      from->set_name({});
    }
    graph.replace_all_uses(from, to);
    for (Node* n : users) inference_.update(n);
  }

  // What `to` is computed from goes on using `from`.
  void replace_where_acyclic(Value* from, Value* to) {
    const std::unordered_set<const Node*> before = ancestors(to->producer());
    std::vector<Use> kept;
    for (const Use& u : from->uses())
      if (before.contains(u.node)) kept.push_back(u);
    for (const Use& u : kept) u.node->set_input(u.index, nullptr);
    replace(*from->graph(), from, to);
    for (const Use& u : kept) u.node->set_input(u.index, from);
  }

  static std::unordered_set<const Node*> ancestors(Node* node) {
    std::unordered_set<const Node*> seen;
    std::vector<Node*> queue{node};
    while (!queue.empty()) {
      Node* n = queue.back();
      queue.pop_back();
      if (!n || !seen.insert(n).second) continue;
      for (Value* v : n->inputs())
        if (v) queue.push_back(v->producer());
      for (Graph* body : n->subgraphs())
        for (Value* v : body->captured()) queue.push_back(v->producer());
    }
    return seen;
  }

  static std::string anchor_label(const Rule& rule, const Match& m, const Node* root) {
    for (const Node* n : m.nodes())
      if (is_anchor(rule, *n)) return n->label();
    return root->label();
  }

  std::span<const Rule> rules_;
  PassContext& context_;
  Inference inference_;
  std::vector<std::set<std::pair<std::string, std::string>>> roots_;
  std::unordered_set<const Node*> erased_;  // in this round
  size_t rewrites_ = 0;
};

// Looks for the anchors of a rule and where their match stopped.
class Explainer {
 public:
  Explainer(std::span<const Rule> rules, const Model& model) : rules_(rules), model_(model), inference_(model) {}

  std::vector<NearMiss> run() {
    model_.graph->for_each_node([&](Node& n) { explain(n); });
    return std::move(misses_);
  }

 private:
  void explain(Node& anchor) {
    const Rule* nearest = nullptr;
    Miss miss;
    for (const Rule& rule : rules_) {
      if (!is_anchor(rule, anchor) || (rule.is_left && !rule.is_left(anchor))) continue;
      if (!nearest) nearest = &rule;
      std::set<std::pair<std::string, std::string>> types;
      collect_roots(*rule.pattern, types);
      for (Value* root : roots_after(anchor, types)) {
        Miss m;
        attempt(rule, root, m);
        if (m.progress <= miss.progress && !miss.path.empty()) continue;
        miss = std::move(m);
        nearest = &rule;
      }
    }
    if (!nearest) return;
    if (miss.path.empty()) {
      miss.path = anchor.type();
      miss.value = anchor.output();
      miss.found = fmt::format("its result reaches no {} that the rule could end with", operators_of(*nearest));
    }
    misses_.push_back({nearest->name, anchor.label(), miss.path, name_of(miss.value), miss.reason()});
  }

  // "MatMul or Cast"
  static std::string operators_of(const Rule& rule) {
    std::set<std::pair<std::string, std::string>> types;
    collect_roots(*rule.pattern, types);
    std::vector<std::string> names;
    for (const auto& [domain, type] : types) names.push_back(domain.empty() ? type : domain + "." + type);
    return fmt::format("{}", fmt::join(names, " or "));
  }

  void attempt(const Rule& rule, Value* root, Miss& miss) {
    const auto m = match(rule.pattern, root, inference_, &miss);
    if (!m) return;
    miss = {2 * m->nodes().size() + 2, 0, {}, root, {}, {}};
    Builder builder(root->producer(), inference_, model_.opset());
    const Outcome outcome = rewritten(rule, *m, builder, *root);
    miss.path = outcome.root ? rule.pattern->label() : outcome.part;
    if (const Value* part = outcome.root ? nullptr : (*m)[outcome.part]) miss.value = part;
    miss.found = outcome.root ? "would match, but the bound on rewrites was reached" : outcome.reason;
  }

  // Values of one of the types that `anchor` reaches on short ways (not through another such node).
  static std::vector<Value*> roots_after(Node& anchor, const std::set<std::pair<std::string, std::string>>& types) {
    constexpr int kMaxSteps = 6;
    std::vector<Value*> roots;
    if (types.contains({anchor.domain(), anchor.type()}) && anchor.output()) roots.push_back(anchor.output());
    std::vector<Node*> front{&anchor};
    std::unordered_set<const Node*> seen{&anchor};
    for (int step = 0; step < kMaxSteps && !front.empty(); ++step) {
      std::vector<Node*> next;
      for (const Node* n : front)
        for (size_t i = 0; i < n->output_count(); ++i) {
          if (!n->output(i)) continue;
          for (const Use& u : n->output(i)->uses()) {
            if (!seen.insert(u.node).second) continue;
            if (types.contains({u.node->domain(), u.node->type()}) && u.node->output())
              roots.push_back(u.node->output());
            else
              next.push_back(u.node);
          }
        }
      front = std::move(next);
    }
    return roots;
  }

  std::span<const Rule> rules_;
  const Model& model_;
  Inference inference_;
  std::vector<NearMiss> misses_;
};

}  // namespace

size_t apply_rules(std::span<const Rule> rules, PassContext& context) { return Rewriter(rules, context).run(); }

std::vector<NearMiss> explain_anchors(std::span<const Rule> rules, const Model& model) {
  return Explainer(rules, model).run();
}

}  // namespace attune::pattern
