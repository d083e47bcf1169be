#include "passes/pattern/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ops/op.h"

namespace attune::pattern {
namespace {

// A reference to a callable (the continuations of the matcher live on the stack).
class Next {
 public:
  template <class F>
  Next(const F& f)  // NOLINT(google-explicit-constructor)
      : object_(&f), call_([](const void* o) { return (*static_cast<const F*>(o))(); }) {}
  bool operator()() const { return call_(object_); }

 private:
  const void* object_;
  bool (*call_)(const void*);
};

// The way from the root to a place in the pattern, as a list on the stack.
struct Path {
  const Path* parent;
  const PatNode* pat;
  size_t operand;

  std::string text() const {
    const std::string step = pat->kind == Kind::kOneOf ? std::string() : pat->label();
    if (!parent) return step;
    if (parent->pat->kind == Kind::kOneOf) {
      // An alternative stands where the one_of stands.
      std::string before = parent->text();
      return before.empty() || before.back() == '.' ? before + step : before + (step.empty() ? "" : "." + step);
    }
    return parent->text() + fmt::format("[{}]", operand) + (step.empty() ? "" : "." + step);
  }
};

bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<int64_t>(&a)) return *x == std::get<int64_t>(b);
  if (const auto* x = std::get_if<float>(&a)) return *x == std::get<float>(b);
  if (const auto* x = std::get_if<std::string>(&a)) return *x == std::get<std::string>(b);
  if (const auto* x = std::get_if<std::vector<int64_t>>(&a)) return *x == std::get<std::vector<int64_t>>(b);
  return false;
}

std::string to_string(const Attribute& a) {
  if (const auto* x = std::get_if<int64_t>(&a)) return std::to_string(*x);
  if (const auto* x = std::get_if<float>(&a)) return fmt::format("{}", *x);
  if (const auto* x = std::get_if<std::string>(&a)) return *x;
  if (const auto* x = std::get_if<std::vector<int64_t>>(&a)) return fmt::format("({})", fmt::join(*x, ","));
  return "of another kind";
}

std::string describe(const Value* v) {
  if (!v) return "no input";
  if (v->constant()) return "a constant";
  if (v->is_graph_input()) return "an input of the graph";
  const Node* n = v->producer();
  if (!n) return "a constant that callers may override";
  return n->domain().empty() ? n->type() : n->domain() + "." + n->type();
}

bool is_close(double x, double value, double tolerance) {
  if (!std::isfinite(value)) return x == value;
  return std::abs(x - value) <= tolerance * std::max(1.0, std::abs(value));
}

bool all_close(const Tensor& t, double value, double tolerance) {
  if (!is_float(t.type()) && !is_integer(t.type())) return false;
  const std::vector<double> elements = t.to_double();
  return !elements.empty() &&
         std::all_of(elements.begin(), elements.end(), [&](double e) { return is_close(e, value, tolerance); });
}

constexpr int64_t kMaxComparedElements = 1 << 16;

}  // namespace

std::string Miss::reason() const {
  if (expected.empty()) return found;
  std::string list = expected.front();
  for (size_t i = 1; i < expected.size(); ++i) list += (i + 1 == expected.size() ? " or " : ", ") + expected[i];
  return fmt::format("expected {}, found {}", list, found);
}

Value* Match::operator[](std::string_view name) const {
  for (const Binding& b : bindings_)
    if (b.pat->name == name && b.pat->kind != Kind::kOneOf) return b.value;
  return nullptr;
}

Node* Match::node(std::string_view name) const {
  for (const Binding& b : bindings_)
    if (b.pat->name == name && b.pat->kind == Kind::kOp) return b.value->producer();
  return nullptr;
}

size_t Match::choice(std::string_view name) const {
  for (const auto& [pat, index] : choices_)
    if (pat->name == name) return index;
  throw Error(Error::Kind::kInternal, fmt::format("the pattern has no one_of '{}'", name));
}

std::optional<double> Match::number(std::string_view name) const {
  const Value* v = (*this)[name];
  return v ? inference_->scalar(v) : std::nullopt;
}

class Matcher {
 public:
  Matcher(const Inference& inference, Miss* miss) : miss_(miss) { m_.inference_ = &inference; }

  std::optional<Match> run(const Pat& pattern, Value* root) {
    m_.root_ = root;
    const Path path{nullptr, pattern.get(), 0};
    if (!value(*pattern, root, path, [&] { return outside_uses_allowed(); })) return std::nullopt;
    m_.pattern_ = pattern;
    return std::move(m_);
  }

 private:
  // `near`: the operator is the right one, and something about it isn't.
  bool fail(const Path& path, const Value* v, std::string expected, std::string found, bool near = false) {
    if (!miss_) return false;
    const size_t progress = 2 * m_.nodes_.size() + (near ? 1 : 0);
    // A constant in the place of an operator: the wrong order of operands rather than a step that is missing.
    const bool other_operand = path.pat->kind == Kind::kOp && v && v->constant();
    const size_t places = other_operand ? 0 : count_places();
    const auto rank = std::pair(progress, places), best = std::pair(miss_->progress, miss_->places);
    if (rank < best) return false;
    if (rank == best && miss_->value == v && !expected.empty() && miss_->found == found && !miss_->expected.empty()) {
      if (std::find(miss_->expected.begin(), miss_->expected.end(), expected) == miss_->expected.end())
        miss_->expected.push_back(std::move(expected));
      return false;
    }
    if (rank == best && !miss_->path.empty()) return false;
    *miss_ = {progress, places, path.text(), v, {}, std::move(found)};
    if (!expected.empty()) miss_->expected.push_back(std::move(expected));
    return false;
  }

  size_t count_places() const {
    return static_cast<size_t>(std::count_if(m_.bindings_.begin(), m_.bindings_.end(),
                                             [](const auto& b) { return b.pat->kind != Kind::kOneOf; }));
  }

  bool value(const PatNode& p, Value* v, const Path& path, Next next) {
    for (const auto& b : m_.bindings_)
      if (b.pat == &p)
        return b.value == v ? next() : fail(path, v, "the same value as " + p.label() + " elsewhere", "another");
    const size_t bindings = m_.bindings_.size(), choices = m_.choices_.size(), nodes = m_.nodes_.size();
    m_.bindings_.push_back({&p, v});
    if (kind(p, v, path, next)) return true;
    m_.bindings_.resize(bindings);
    m_.choices_.resize(choices);
    m_.nodes_.resize(nodes);
    m_.outside_.resize(nodes);
    paths_.resize(nodes);
    return false;
  }

  // Whether where()'s predicate holds, if there is one.
  bool holds(const PatNode& p, const Value* v, const Path& path) {
    if (!p.predicate || (v && p.predicate(*v, *m_.inference_))) return true;
    return fail(path, v, p.expectation, describe_type(v), p.kind == Kind::kOp);
  }

  static std::string describe_type(const Value* v) { return v ? v->type().to_string() : "no input"; }

  bool kind(const PatNode& p, Value* v, const Path& path, Next next) {
    switch (p.kind) {
      case Kind::kAny:
        return holds(p, v, path) && next();
      case Kind::kConstant:
        return is_constant(p, v) ? holds(p, v, path) && next() : fail(path, v, p.label(), describe(v));
      case Kind::kScalar:
        return v && m_.inference_->scalar(v) ? holds(p, v, path) && next()
                                             : fail(path, v, "a known scalar", describe(v));
      case Kind::kOneOf:
        return alternative(p, v, path, next);
      case Kind::kOp:
        return op(p, v, path, next);
    }
    return false;
  }

  bool alternative(const PatNode& p, Value* v, const Path& path, Next next) {
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      m_.choices_.emplace_back(&p, i);
      if (value(*p.inputs[i], v, Path{&path, p.inputs[i].get(), i}, next)) return true;
      m_.choices_.pop_back();
    }
    return false;
  }

  bool is_constant(const PatNode& p, const Value* v) const {
    if (!v) return false;
    if (const Tensor* t = v->constant())
      return t->count() <= kMaxComparedElements && all_close(*t, p.value, p.tolerance);
    const auto known = m_.inference_->scalar(v);
    return known && is_close(*known, p.value, p.tolerance);
  }

  bool op(const PatNode& p, Value* v, const Path& path, Next next) {
    Node* n = v ? v->producer() : nullptr;
    if (!n || !n->is(p.type, p.domain)) return fail(path, v, p.label(), describe(v));
    if (v->output_index() != p.output)
      return fail(path, v, fmt::format("output {} of {}", p.output, p.label()),
                  fmt::format("output {}", v->output_index()), true);
    if (!attributes_hold(p, *n, path, v) || !holds(p, v, path)) return false;
    size_t given = n->inputs().size();
    while (given > 0 && !n->input(given - 1)) --given;
    if (given > p.inputs.size() && !p.further_inputs)
      return fail(path, v, fmt::format("{} with {} inputs", p.label(), p.inputs.size()), fmt::format("{}", given),
                  true);
    m_.nodes_.push_back(n);
    m_.outside_.push_back(p.outside);
    paths_.push_back(&path);
    if (operands(p, *n, path, false, 0, next)) return true;
    return p.inputs.size() == 2 && is_commutative(p.domain, p.type) && operands(p, *n, path, true, 0, next);
  }

  bool operands(const PatNode& p, const Node& n, const Path& path, bool swapped, size_t i, Next next) {
    if (i == p.inputs.size()) return next();
    const size_t j = swapped ? p.inputs.size() - 1 - i : i;
    return value(*p.inputs[i], n.input(j), Path{&path, p.inputs[i].get(), j},
                 [&, i] { return operands(p, n, path, swapped, i + 1, next); });
  }

  bool attributes_hold(const PatNode& p, const Node& n, const Path& path, const Value* v) {
    for (const AttributeTest& test : p.attributes) {
      const auto it = n.attributes().find(test.name);
      if (it == n.attributes().end() && !test.has_fallback)
        return fail(path, v, fmt::format("{} with {} {}", p.label(), test.name, to_string(test.value)), "none", true);
      Attribute actual = it == n.attributes().end() ? test.fallback : it->second;
      if (test.is_axis) {
        auto* axis = std::get_if<int64_t>(&actual);
        const int rank = n.input(0) ? n.input(0)->tensor_type().rank() : -1;
        if (axis && *axis >= 0 && rank < 0)
          return fail(path, v, {}, fmt::format("the rank isn't known, so axis {} can't be counted from the end", *axis),
                      true);
        if (axis && *axis >= 0) *axis -= rank;
      }
      if (!equal(actual, test.value))
        return fail(path, v, fmt::format("{} with {} {}", p.label(), test.name, to_string(test.value)),
                    to_string(actual), true);
    }
    return true;
  }

  // True if no interior value is used outside. A node that is kept for outside users keeps what it reads alive. What
  // lies in a graph around the root's can't be replaced for others: the results are in the root's.
  bool outside_uses_allowed() {
    std::unordered_map<const Node*, OutsideUse> matched;
    for (size_t i = 0; i < m_.nodes_.size(); ++i) matched.emplace(m_.nodes_[i], m_.outside_[i]);
    matched[m_.root_->producer()] = OutsideUse::kReplaced;
    // In the order of matching a node comes after its first user, not after all of them: repeat until nothing changes.
    std::unordered_map<const Node*, const Node*> kept;  // node -> who keeps it (null: a graph output)
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [node, outside] : matched) {
        const bool replaced = outside == OutsideUse::kReplaced && node->graph() == m_.root_->producer()->graph();
        if (replaced || kept.contains(node)) continue;
        const auto keeper = find_keeper(*node, matched, kept);
        if (!keeper) continue;
        kept.emplace(node, *keeper);
        changed = true;
      }
    }
    for (size_t i = 0; i < m_.nodes_.size(); ++i) {
      const auto it = kept.find(m_.nodes_[i]);
      if (it == kept.end() || matched.at(m_.nodes_[i]) == OutsideUse::kShared) continue;
      return fail(*paths_[i], value_of(m_.nodes_[i]), {},
                  it->second ? "is also used outside of the match, by " + it->second->label()
                             : std::string("is an output of the graph"),
                  true);
    }
    return true;
  }

  static std::optional<const Node*> find_keeper(const Node& node,
                                                const std::unordered_map<const Node*, OutsideUse>& matched,
                                                const std::unordered_map<const Node*, const Node*>& kept) {
    for (size_t i = 0; i < node.output_count(); ++i) {
      const Value* v = node.output(i);
      if (!v) continue;
      if (v->is_graph_output()) return nullptr;
      for (const Use& u : v->uses())
        if (!matched.contains(u.node) || kept.contains(u.node)) return u.node;
    }
    return std::nullopt;
  }

  const Value* value_of(const Node* n) const {
    for (const auto& b : m_.bindings_)
      if (b.pat->kind == Kind::kOp && b.value->producer() == n) return b.value;
    return nullptr;
  }

  Match m_;
  std::vector<const Path*> paths_;  // of m_.nodes_, on the stack of the attempt
  Miss* miss_;
};

std::optional<Match> match(const Pat& pattern, Value* root, const Inference& inference, Miss* miss) {
  return Matcher(inference, miss).run(pattern, root);
}

}  // namespace attune::pattern
