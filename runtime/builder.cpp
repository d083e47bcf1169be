#include "runtime/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/io/file_bytes.h"
#include "ops/evaluate.h"
#include "ops/op.h"
#include "ops/support/stored_weights.h"

namespace attune {
namespace {

class PlanContext : public KernelContext {
 public:
  PlanContext(const Node& node, int64_t opset, ProgramBuilder& builder, const KernelOptions& options)
      : node_(node), opset_(opset), builder_(builder), options_(options) {}
  const Node& node() const override { return node_; }
  int64_t opset() const override { return opset_; }
  const Tensor* constant(size_t input) const override {
    const Value* v = node_.input(input);
    return v ? v->constant() : nullptr;
  }
  std::shared_ptr<const Subprogram> compile(std::string_view attribute) const override {
    const auto* body = node_.find<std::shared_ptr<Graph>>(attribute);
    if (!body) throw Error(Error::Kind::kInvalidModel, fmt::format("attribute '{}' must be a graph", attribute));
    return builder_.add_body(**body);
  }
  const KernelOptions& options() const override { return options_; }

 private:
  const Node& node_;
  int64_t opset_;
  ProgramBuilder& builder_;
  const KernelOptions& options_;
};

std::string full_type(const Node& node) {
  return node.domain().empty() ? node.type() : node.domain() + "." + node.type();
}

// Calls f(tensor) for a constant, or for those that a node which widens them takes.
template <class F>
void for_each_stored(const Value* value, F&& f) {
  if (!value) return;
  if (const Tensor* t = value->constant()) return f(*t);
  if (value->producer() && widens_stored_matrix(*value->producer()))
    for (const Value* v : value->producer()->inputs()) for_each_stored(v, f);
}

// The shape of a constant, or of what a DequantizeLinear makes of one.
Shape stored_shape(const Value* value) {
  std::optional<Shape> first;
  for_each_stored(value, [&](const Tensor& t) {
    if (!first) first = t.shape();
  });
  return first.value_or(Shape());
}

size_t index(int slot) { return static_cast<size_t>(slot); }

}  // namespace

ProgramBuilder::ProgramBuilder(BuildState& state, const Graph& graph)
    : state_(state), graph_(graph), program_(std::make_shared<Program>()) {
  program_->id = state.programs.size();
  state.programs.push_back(program_);
}

// ---- first round: kernels

void ProgramBuilder::need(const Value* value) {
  if (!value || !needed_.insert(value).second) return;
  if (value->graph() != &graph_ && !value->constant()) captures_.push_back(value);
}

bool ProgramBuilder::needed(const Node& node) const {
  for (size_t i = 0; i < node.output_count(); ++i)
    if (node.output(i) && needed_.contains(node.output(i))) return true;
  return false;
}

void ProgramBuilder::prepare() {
  for (const Value* v : graph_.outputs()) need(v);
  const auto order = graph_.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = **it;
    const bool constant = node.output_count() == 1 && node.output() && node.output()->constant();
    if (needed(node) && !constant) prepare_node(node);
  }
  std::reverse(entries_.begin(), entries_.end());
}

void ProgramBuilder::prepare_node(const Node& node) {
  const int64_t opset = state_.prepared.opset(node);
  const OpDef* op = find_op(node.domain(), node.type(), opset);
  std::unique_ptr<Kernel> kernel;
  std::vector<std::unique_ptr<ProgramBuilder>> bodies;
  if (!op || !op->prepare) {
    state_.unsupported.push_back({full_type(node), node.label(), fmt::format("no kernel (opset {})", opset)});
  } else {
    open_bodies_ = &bodies;
    try {
      kernel = op->prepare(PlanContext(node, opset, *this, state_.kernels));
    } catch (Error& e) {
      if (e.kind() != Error::Kind::kUnsupported) {
        e.add_frame(node.label());
        throw;
      }
      state_.unsupported.push_back({full_type(node), node.label(), e.what()});
    }
    open_bodies_ = nullptr;
  }
  if (kernel && fold_late(node, *kernel)) return;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    if (!kernel || kernel->uses_input(i)) {
      need(node.input(i));
    } else {
      for_each_stored(node.input(i), [](const Tensor& t) { release_mapped_pages(t.raw(), t.bytes()); });
    }
  }
  bool deterministic = op && op->deterministic;
  for (const auto& body : bodies) {
    for (const Value* v : body->captures()) need(v);
    deterministic = deterministic && body->deterministic();
  }
  deterministic_ = deterministic_ && deterministic;
  entries_.push_back({&node, std::move(kernel), std::move(bodies), deterministic});
}

// Constants that nobody took in their stored form are widened now, once for all sessions.
bool ProgramBuilder::fold_late(const Node& node, const Kernel& kernel) {
  if (!widens_stored_matrix(node) || node.output_count() != 1) return false;
  std::vector<Datum> inputs;
  for (const Value* v : node.inputs()) {
    const Tensor* t = v ? v->constant() : nullptr;
    if (v && !t) return false;
    inputs.push_back(t ? Datum(*t) : Datum());
  }
  SimpleCall call(std::move(inputs), 1, nullptr);
  within([&] { return node.label(); }, [&] { kernel.run(call); });
  folded_[node.output()] = call.outputs()[0].tensor();
  return true;
}

std::shared_ptr<const Program> ProgramBuilder::add_body(const Graph& body) {
  open_bodies_->push_back(std::make_unique<ProgramBuilder>(state_, body));
  ProgramBuilder& builder = *open_bodies_->back();
  const auto program = builder.program();
  builder.prepare();
  return program;
}

// ---- second round: slots and lifetimes

int ProgramBuilder::new_slot(bool cached) {
  program_->cached.push_back(cached);
  program_->producer.push_back(kNoSlot);
  per_call_.push_back(false);
  return static_cast<int>(program_->slot_count++);
}

int ProgramBuilder::slot(const Value* value) {
  if (!value || !needed_.contains(value)) return kNoSlot;
  if (const auto it = slots_.find(value); it != slots_.end()) return it->second;
  const auto folded = folded_.find(value);
  const Tensor* constant = folded != folded_.end() ? &folded->second : value->constant();
  if (!constant) throw Error(Error::Kind::kInternal, fmt::format("'{}' is used before it is set", value->name()));
  const int s = new_slot(true);
  program_->constants.emplace_back(s, *constant);
  return slots_[value] = s;
}

void ProgramBuilder::lay_out_inputs() {
  for (const Value* v : graph_.inputs()) {
    int s = kNoSlot;
    if (needed_.contains(v))
      s = slots_[v] = new_slot(!graph_.parent() && state_.options.fixed_inputs.contains(std::string(v->name())));
    program_->inputs.push_back(s);
  }
}

void ProgramBuilder::lay_out_captures(const std::vector<bool>& cached_captures) {
  // A body without inputs (If) runs once for a call: what changes from call to call is nothing to keep there.
  program_->iterated = !graph_.inputs().empty();
  program_->capture_count = captures_.size();
  for (size_t i = 0; i < captures_.size(); ++i) {
    const int s = slots_[captures_[i]] = new_slot(cached_captures[i] || program_->iterated);
    if (cached_captures[i] || !program_->iterated) continue;
    per_call_[index(s)] = true;
    program_->loop_slots.push_back(s);
  }
}

void ProgramBuilder::finish(const std::vector<bool>& cached_captures) {
  lay_out_inputs();
  lay_out_captures(cached_captures);
  for (Entry& entry : entries_) add_step(entry);
  for (const Value* v : graph_.outputs()) program_->outputs.push_back(slot(v));
  const auto& outputs = program_->outputs;
  for (auto it = outputs.begin(); it != outputs.end(); ++it)
    program_->output_movable.push_back(!is_cached(*it) &&
                                       std::find(std::next(it), outputs.end(), *it) == outputs.end());
  set_lifetimes();
}

void ProgramBuilder::add_step(Entry& entry) {
  const Node& node = *entry.node;
  Step step;
  step.label = node.label();
  step.op = full_type(node);
  if (!entry.kernel) return;  // reported as unsupported
  bool all_cached = true;
  bool per_call = false;
  const auto depend = [&](int s) {
    all_cached = all_cached && is_cached(s);
    per_call = per_call || (s != kNoSlot && per_call_[index(s)]);
  };
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const bool used = entry.kernel->uses_input(i);
    const int s = used ? slot(node.input(i)) : kNoSlot;
    step.inputs.push_back(s);
    step.packed.push_back(used ? Shape() : stored_shape(node.input(i)));
    if (!used)
      for_each_stored(node.input(i), [&](const Tensor& t) { step.packed_bytes += static_cast<double>(t.bytes()); });
    step.strided.push_back(entry.kernel->accepts_strided(i));
    depend(s);
  }
  for (const auto& body : entry.bodies)
    for (const Value* v : body->captures()) depend(slot(v));
  step.reads_shapes_only = entry.kernel->reads_shapes_only();
  step.cached = entry.deterministic && (all_cached || step.reads_shapes_only);
  for (size_t i = 0; i < node.output_count(); ++i) {
    const Value* v = node.output(i);
    if (!v || !needed_.contains(v)) {
      step.outputs.push_back(kNoSlot);
      continue;
    }
    const int s = slots_[v] = new_slot(step.cached);
    step.outputs.push_back(s);
    if (!step.cached) continue;
    program_->producer[index(s)] = static_cast<int>(program_->steps.size());
    per_call_[index(s)] = per_call && all_cached;
    if (per_call_[index(s)]) program_->loop_slots.push_back(s);
  }
  finish_bodies(entry, step);
  step.kernel = std::move(entry.kernel);
  program_->steps.push_back(std::move(step));
}

void ProgramBuilder::finish_bodies(Entry& entry, Step& step) {
  for (const auto& body : entry.bodies) {
    std::vector<bool> cached;
    for (const Value* v : body->captures()) cached.push_back(is_cached(slot(v)));
    body->finish(cached);
    Body b{body->program(), {}};
    for (size_t i = 0; i < cached.size(); ++i)
      b.captures.push_back({slot(body->captures()[i]), body->capture_slot(i), cached[i], false});
    step.bodies.push_back(std::move(b));
  }
}

void ProgramBuilder::set_lifetimes() {
  Program& p = *program_;
  constexpr int kForever = -2;
  std::vector<int> last_user(p.slot_count, kNoSlot);
  const auto use = [&](int s, int user) {
    if (s != kNoSlot && last_user[index(s)] != kForever) last_user[index(s)] = user;
  };
  for (const int s : p.outputs) use(s, kForever);
  for (size_t n = 0; n < p.steps.size(); ++n) {
    const Step& step = p.steps[n];
    const auto read = [&](int s, bool by_body) {
      if (s == kNoSlot) return;
      // Cached values that only cached steps read can be had again from their producer; others stay.
      const bool keep = p.cached[index(s)] && (!step.cached || by_body || p.producer[index(s)] == kNoSlot);
      use(s, keep ? kForever : static_cast<int>(n));
    };
    for (const int s : step.inputs) read(s, false);
    for (const Body& body : step.bodies)
      for (const Capture& c : body.captures) read(c.outer, true);
  }
  for (size_t n = 0; n < p.steps.size(); ++n) {
    Step& step = p.steps[n];
    const auto ends_here = [&](int s) { return s != kNoSlot && last_user[index(s)] == static_cast<int>(n); };
    const auto captured = [&](int s) {
      return std::any_of(step.bodies.begin(), step.bodies.end(), [&](const Body& b) {
        return std::any_of(b.captures.begin(), b.captures.end(), [&](const Capture& c) { return c.outer == s; });
      });
    };
    for (const int s : step.inputs) {
      const bool once = std::count(step.inputs.begin(), step.inputs.end(), s) == 1;
      step.movable.push_back(ends_here(s) && once && !p.cached[index(s)] && !captured(s));
    }
    for (Body& body : step.bodies)
      for (Capture& c : body.captures)
        c.movable = ends_here(c.outer) && !p.cached[index(c.outer)] && !body.program->iterated &&
                    std::find(step.inputs.begin(), step.inputs.end(), c.outer) == step.inputs.end();
    std::set<int> done;
    for (const int s : step.inputs)
      if (ends_here(s)) done.insert(s);
    for (const Body& body : step.bodies)
      for (const Capture& c : body.captures)
        if (ends_here(c.outer)) done.insert(c.outer);
    step.release.assign(done.begin(), done.end());
  }
}

}  // namespace attune
