#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/executor.h"
#include "runtime/plan_impl.h"
#include "runtime/threads.h"

namespace attune {
namespace {

size_t index(int slot) { return static_cast<size_t>(slot); }

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// The steps that the wanted outputs need.
std::vector<bool> needed_steps(const Program& program, const std::vector<bool>& wanted) {
  std::vector<bool> slots(program.slot_count, false);
  const auto need = [&](int s) {
    if (s != kNoSlot) slots[index(s)] = true;
  };
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) need(program.outputs[i]);
  std::vector<bool> steps(program.steps.size(), false);
  for (size_t n = program.steps.size(); n-- > 0;) {
    const Step& step = program.steps[n];
    steps[n] =
        std::any_of(step.outputs.begin(), step.outputs.end(), [&](int s) { return s != kNoSlot && slots[index(s)]; });
    if (!steps[n]) continue;
    for (const int s : step.inputs) need(s);
    for (const Body& body : step.bodies)
      for (const Capture& c : body.captures) need(c.outer);
  }
  return steps;
}

}  // namespace

struct Session::Impl {
  Impl(std::shared_ptr<const Plan> p, const SessionOptions& options)
      : plan(std::move(p)),
        model(plan->impl()),
        threads(options.threads > 0 ? options.threads : physical_cores()),
        executor(model.programs, pool, options.profile),
        pending(model.inputs.size(), false) {}

  const Program& program() const { return model.program(); }
  const std::vector<bool>* needed(const std::vector<bool>& wanted);
  void check(const std::vector<Datum>& inputs);
  void compare_shapes(const std::vector<Datum>& inputs);
  void feed(std::vector<Datum>& inputs);
  void run(std::vector<Datum>& inputs, std::vector<Datum>& outputs, const std::vector<bool>& wanted);
  void trim();

  std::shared_ptr<const Plan> plan;
  const Plan::Impl& model;
  int threads;
  BufferPool pool;
  Executor executor;
  std::vector<bool> pending;  // fixed inputs that were set since the last run
  std::vector<Shape> shapes;  // of the inputs of the last run that was checked
  std::map<std::vector<bool>, std::vector<bool>> needed_cache;
  std::vector<const Datum*> checked;
  std::vector<Datum> positional_inputs, positional_outputs;
  bool new_shapes = true;
};

const std::vector<bool>* Session::Impl::needed(const std::vector<bool>& wanted) {
  if (std::find(wanted.begin(), wanted.end(), false) == wanted.end()) return nullptr;
  auto it = needed_cache.find(wanted);
  if (it == needed_cache.end()) it = needed_cache.emplace(wanted, needed_steps(program(), wanted)).first;
  return &it->second;
}

// Checks inputs whose shapes are not those of the run before, and indices in any.
void Session::Impl::check(const std::vector<Datum>& inputs) {
  try {
    compare_shapes(inputs);
    if (new_shapes) model.check->check(checked);
    for (const IndexLimit& l : model.index_limits)
      if (checked[l.input]->kind() == Datum::Kind::kTensor && checked[l.input]->defined())
        check_indices(l, model.inputs[l.input].name, checked[l.input]->tensor());
  } catch (...) {
    shapes.clear();  // nothing of a refused run counts as checked
    throw;
  }
}

void Session::Impl::compare_shapes(const std::vector<Datum>& inputs) {
  const Frame& frame = executor.frame(program());
  checked.resize(inputs.size());
  new_shapes = shapes.size() != inputs.size();
  shapes.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    checked[i] = &inputs[i];
    if (model.fixed[i]) {
      if (inputs[i].defined()) invalid(fmt::format("input '{}' is fixed: it is set by fix()", model.inputs[i].name));
      const int s = program().inputs[i];
      if (s == kNoSlot) continue;
      checked[i] = &frame.slots[index(s)];
      if (!checked[i]->defined()) invalid(fmt::format("fixed input '{}' was never set", model.inputs[i].name));
    } else if (!inputs[i].defined() && !model.defaults[i]) {
      invalid(fmt::format("input '{}' ({}) is missing", model.inputs[i].name, model.inputs[i].type.to_string()));
    }
    const bool tensor = checked[i]->kind() == Datum::Kind::kTensor;
    const Shape shape = tensor ? checked[i]->tensor().shape() : Shape();
    const bool same_type = !tensor || checked[i]->tensor().type() == model.inputs[i].type.tensor.element;
    if (tensor && same_type && shape == shapes[i]) continue;
    shapes[i] = shape;
    new_shapes = true;
  }
}

void Session::Impl::feed(std::vector<Datum>& inputs) {
  Frame& frame = executor.frame(program());
  std::fill(frame.changed.begin(), frame.changed.end(), uint8_t{0});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int s = program().inputs[i];
    if (model.fixed[i]) {
      if (pending[i] && s != kNoSlot) Executor::mark_changed(frame, s);
      pending[i] = false;
    } else if (s == kNoSlot) {
      inputs[i] = Datum();
    } else if (!inputs[i].defined() && model.defaults[i]) {
      frame.slots[index(s)] = *model.defaults[i];
    } else {
      frame.slots[index(s)] = std::move(inputs[i]);
      inputs[i] = Datum();
    }
  }
}

// New shapes leave blocks behind that fit nothing any more.
void Session::Impl::trim() {
  constexpr size_t kSlack = size_t{16} << 20;
  if (!new_shapes) return;
  const size_t bound = 4 * pool.peak_bytes() + kSlack;
  if (pool.idle_bytes() > bound) {
    pool.trim(bound / 2);
    pool.reset_peak();
  }
}

void Session::Impl::run(std::vector<Datum>& inputs, std::vector<Datum>& outputs, const std::vector<bool>& wanted) {
  if (inputs.size() != model.inputs.size())
    invalid(fmt::format("expected {} inputs, got {}", model.inputs.size(), inputs.size()));
  if (!wanted.empty() && wanted.size() != model.outputs.size())
    invalid(fmt::format("expected {} flags of wanted outputs, got {}", model.outputs.size(), wanted.size()));
  check(inputs);
  feed(inputs);
  const ThreadScope scope(threads);
  try {
    executor.run(program(), needed(wanted));
  } catch (...) {
    executor.invalidate();
    throw;
  }
  executor.collect(program(), wanted, outputs);
  trim();
}

Session::Session(std::shared_ptr<const Plan> plan, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(plan), options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Plan& Session::plan() const { return *impl_->plan; }
BufferPool& Session::pool() { return impl_->pool; }

// NOLINTNEXTLINE(performance-unnecessary-value-param): its data are moved
TensorMap Session::run(TensorMap inputs, const std::vector<std::string>& wanted) {
  auto& in = impl_->positional_inputs;
  auto& out = impl_->positional_outputs;
  in.assign(impl_->model.inputs.size(), Datum());
  for (auto& [name, datum] : inputs) {
    const auto i = plan().find_input(name);
    if (!i) invalid(fmt::format("the model has no input '{}'", name));
    in[*i] = std::move(datum);
    datum = Datum();
  }
  std::vector<bool> flags;
  if (!wanted.empty()) flags.assign(impl_->model.outputs.size(), false);
  for (const std::string& name : wanted) {
    const auto o = plan().find_output(name);
    if (!o) invalid(fmt::format("the model has no output '{}'", name));
    flags[*o] = true;
  }
  run(in, out, flags);
  TensorMap result;
  for (size_t i = 0; i < out.size(); ++i) {
    if (flags.empty() || flags[i]) result[impl_->model.outputs[i].name] = std::move(out[i]);
    out[i] = Datum();
  }
  return result;
}

void Session::run(std::vector<Datum>& inputs, std::vector<Datum>& outputs, const std::vector<bool>& wanted) {
  impl_->run(inputs, outputs, wanted);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): its data are moved
void Session::fix(TensorMap inputs) {
  Frame& frame = impl_->executor.frame(impl_->program());
  for (auto& [name, datum] : inputs) {
    const auto i = plan().find_input(name);
    if (!i || !impl_->model.fixed[*i]) invalid(fmt::format("the model has no fixed input '{}'", name));
    std::vector<Datum> single(impl_->model.inputs.size());
    single[*i] = datum;
    std::vector<const Datum*> pointers;
    for (const Datum& d : single) pointers.push_back(&d);
    impl_->model.check->check(pointers);
    if (const int s = impl_->program().inputs[*i]; s != kNoSlot) frame.slots[index(s)] = std::move(datum);
    impl_->pending[*i] = true;
  }
  impl_->shapes.clear();
}

}  // namespace attune
