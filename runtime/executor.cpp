#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "runtime/profile.h"

namespace attune {
namespace {

constexpr size_t kSmall = 4096;  // bytes of a cached value that is kept even if its producer could give it again

size_t index(int slot) { return static_cast<size_t>(slot); }

size_t tensor_bytes(const Datum& datum) { return datum.kind() == Datum::Kind::kTensor ? datum.tensor().bytes() : 0; }

// True if both are small tensors of equal contents.
bool same_small(const Datum& a, const Datum& b) {
  constexpr size_t kCompared = 256;
  if (a.kind() != Datum::Kind::kTensor || b.kind() != Datum::Kind::kTensor) return false;
  const Tensor& s = a.tensor();
  const Tensor& t = b.tensor();
  return s.type() == t.type() && s.shape() == t.shape() && s.type() != DataType::kString && s.contiguous() &&
         t.contiguous() && s.bytes() <= kCompared && std::memcmp(s.raw(), t.raw(), s.bytes()) == 0;
}

const Datum kNone{};

// As `datum = Datum()`, without a copy of nothing.
void clear(Datum& datum) {
  std::destroy_at(&datum);
  std::construct_at(&datum);
}

}  // namespace

// A kernel's view of a frame.
class StepCall : public KernelCall {
 public:
  StepCall(Executor& executor, Frame& frame, const Step& step) : executor_(executor), frame_(frame), step_(step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.strided[i] || step.inputs[i] == kNoSlot) continue;
      const Datum& d = frame.slots[index(step.inputs[i])];
      if (d.kind() != Datum::Kind::kTensor || d.tensor().contiguous()) continue;
      contiguous_.resize(step.inputs.size());
      contiguous_[i] = d.tensor().to_contiguous(&executor.pool());
    }
  }

  ~StepCall() override {
    // What an iterated body took from outside, and what depends on it, is of no use to the next call.
    for (const Body* body : loops_) {
      Frame& inner = executor_.frame(*body->program);
      for (const int s : body->program->loop_slots) inner.slots[index(s)] = Datum();
    }
  }

  size_t input_count() const override { return step_.inputs.size(); }
  size_t output_count() const override { return step_.outputs.size(); }
  bool wants(size_t output) const override { return output < step_.outputs.size() && step_.outputs[output] != kNoSlot; }

  const Datum& datum(size_t input) const override {
    const int slot = input < step_.inputs.size() ? step_.inputs[input] : kNoSlot;
    if (slot == kNoSlot) return kNone;
    return is_copied(input) ? contiguous_[input] : frame_.slots[index(slot)];
  }

  void set_datum(size_t output, Datum value) override { stored(output) = std::move(value); }

  Tensor& output(size_t i, DataType type, const Shape& shape) override {
    Datum& d = stored(i);
    d = Datum(Tensor::allocate(type, shape, pool()));
    return d.tensor();
  }

  Datum take(size_t input) override {
    if (input >= step_.inputs.size() || step_.inputs[input] == kNoSlot) return {};
    if (is_copied(input)) return std::move(contiguous_[input]);
    Datum& d = frame_.slots[index(step_.inputs[input])];
    return step_.movable[input] ? std::move(d) : d;
  }

  BufferPool* pool() const override { return &executor_.pool(); }

  void run(const Subprogram& subprogram, std::vector<Datum>& values) override {
    const auto body = std::find_if(step_.bodies.begin(), step_.bodies.end(),
                                   [&](const Body& b) { return b.program.get() == &subprogram; });
    if (body == step_.bodies.end()) throw Error(Error::Kind::kInternal, "a body of another node was run");
    const Program& program = *body->program;
    if (values.size() != program.inputs.size())
      throw Error(Error::Kind::kInternal, "a body was run with a wrong number of values");
    Frame& inner = executor_.frame(program);
    std::fill(inner.changed.begin(), inner.changed.end(), uint8_t{0});
    const bool again = program.iterated && std::find(loops_.begin(), loops_.end(), &*body) != loops_.end();
    if (!again) bring_in(*body, inner);
    for (size_t i = 0; i < values.size(); ++i)
      if (program.inputs[i] != kNoSlot) inner.slots[index(program.inputs[i])] = std::move(values[i]);
    executor_.run(program);
    executor_.collect(program, {}, values);
  }

 protected:
  Tensor& stored_tensor(size_t output) override { return stored(output).tensor(); }

 private:
  Datum& stored(size_t output) {
    if (wants(output)) return frame_.slots[index(step_.outputs[output])];
    if (output >= spilled_.size()) spilled_.resize(output + 1);
    return spilled_[output];
  }
  bool is_copied(size_t input) const { return input < contiguous_.size() && contiguous_[input].defined(); }

  // Copies (or moves) what the body takes from outside into its frame.
  void bring_in(const Body& body, Frame& inner) {
    if (body.program->iterated) loops_.push_back(&body);
    for (size_t i = 0; i < body.captures.size(); ++i) {
      const Capture& c = body.captures[i];
      Datum& outer = frame_.slots[index(c.outer)];
      Datum& into = inner.slots[index(c.slot)];
      if (c.cached) {
        const uint64_t version = frame_.version[index(c.outer)];
        if (inner.capture_versions[i] == version) continue;
        inner.capture_versions[i] = version;
      }
      into = c.movable ? std::move(outer) : outer;
      if (body.program->cached[index(c.slot)]) Executor::mark_changed(inner, c.slot);
    }
  }

  Executor& executor_;
  Frame& frame_;
  const Step& step_;
  std::vector<Datum> contiguous_;  // copies of strided inputs, for kernels that don't take them
  std::vector<Datum> spilled_;     // outputs that a kernel sets though nobody wants them
  std::vector<const Body*> loops_;
};

// ---- Frame

Frame::Frame(const Program& program)
    : slots(program.slot_count),
      changed(program.slot_count, 0),
      version(program.slot_count, 1),
      stale(program.steps.size(), 1),
      shapes(program.steps.size()) {
  for (const auto& [slot, tensor] : program.constants) slots[index(slot)] = tensor;
  capture_versions.assign(program.capture_count, 0);
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (program.steps[i].reads_shapes_only) shapes[i].resize(program.steps[i].inputs.size());
}

void Frame::invalidate() {
  std::fill(stale.begin(), stale.end(), uint8_t{1});
  std::fill(capture_versions.begin(), capture_versions.end(), 0);
}

// ---- Executor

Executor::Executor(const std::vector<std::shared_ptr<Program>>& programs, BufferPool& pool, Profile* profile)
    : programs_(programs), pool_(pool), profile_(profile) {
  for (const auto& p : programs) frames_.push_back(std::make_unique<Frame>(*p));
}

void Executor::invalidate() {
  for (const auto& p : programs_) {
    Frame& f = frame(*p);
    f.invalidate();
    for (size_t s = 0; s < p->slot_count; ++s)
      if (!p->cached[s]) f.slots[s] = Datum();
  }
}

void Executor::mark_changed(Frame& frame, int slot) {
  frame.changed[index(slot)] = 1;
  ++frame.version[index(slot)];
}

void Executor::run(const Program& program, const std::vector<bool>* needed) {
  Frame& f = frame(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    bool runs = !needed || (*needed)[i];
    if (step.cached) {
      const bool due = must_run(program, f, i);
      if (due && !runs) f.stale[i] = 1;
      runs = runs && due;
      if (runs) run_cached(program, f, i);
    } else if (runs) {
      run_step(f, step);
    }
    release(program, f, step, runs);
  }
}

bool Executor::must_run(const Program& program, const Frame& f, size_t i) {
  if (f.stale[i]) return true;
  const Step& step = program.steps[i];
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    if (step.inputs[k] == kNoSlot) continue;
    const size_t s = index(step.inputs[k]);
    if (program.cached[s] && !f.changed[s]) continue;
    if (!step.reads_shapes_only) return true;
    const Datum& d = f.slots[s];
    if (d.kind() != Datum::Kind::kTensor || !(d.tensor().shape() == f.shapes[i][k])) return true;
  }
  for (const Body& body : step.bodies)
    for (const Capture& c : body.captures)
      if (f.changed[index(c.outer)]) return true;
  return false;
}

// Computes a cached value again that was given up because only cached steps read it.
void Executor::restore(const Program& program, Frame& f, int slot) {
  if (slot == kNoSlot || f.slots[index(slot)].defined()) return;
  const int producer = program.producer[index(slot)];
  if (producer != kNoSlot) run_cached(program, f, index(producer));
}

void Executor::run_cached(const Program& program, Frame& f, size_t i) {
  const Step& step = program.steps[i];
  for (const int s : step.inputs) restore(program, f, s);
  for (const Body& body : step.bodies)
    for (const Capture& c : body.captures) restore(program, f, c.outer);
  if (step.reads_shapes_only) {
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const Datum* d = step.inputs[k] == kNoSlot ? nullptr : &f.slots[index(step.inputs[k])];
      f.shapes[i][k] = d && d->kind() == Datum::Kind::kTensor ? d->tensor().shape() : Shape();
    }
  }
  std::vector<Datum> before = std::move(before_);  // bodies may come here too
  before.resize(step.outputs.size());
  for (size_t k = 0; k < before.size(); ++k)
    if (step.outputs[k] != kNoSlot) before[k] = std::move(f.slots[index(step.outputs[k])]);
  run_step(f, step);
  f.stale[i] = 0;
  for (size_t k = 0; k < before.size(); ++k) {
    const int s = step.outputs[k];
    if (s != kNoSlot && !same_small(before[k], f.slots[index(s)])) mark_changed(f, s);
  }
  before.clear();
  before_ = std::move(before);
}

void Executor::run_step(Frame& f, const Step& step) {
  within([&] { return step.label; },
         [&] {
           StepCall call(*this, f, step);
           if (profile_) {
             run_profiled(call, f, step);
           } else {
             step.kernel->run(call);
           }
         });
}

void Executor::run_profiled(StepCall& call, const Frame& f, const Step& step) {
  ProfileEvent event;
  event.label = step.label;
  event.op = step.op;
  event.bytes = step.packed_bytes;
  for (size_t i = 0; i < call.input_count(); ++i) {
    const Datum& d = call.datum(i);
    event.bytes += static_cast<double>(tensor_bytes(d));
    event.inputs.push_back(d.kind() == Datum::Kind::kTensor ? d.tensor().shape() : step.packed[i]);
  }
  event.start = Profile::Clock::now();
  step.kernel->run(call);
  event.end = Profile::Clock::now();
  event.implementation = step.kernel->implementation();
  for (const int s : step.outputs) {
    if (s == kNoSlot) continue;
    const Datum& d = f.slots[index(s)];
    event.bytes += static_cast<double>(tensor_bytes(d));
    event.outputs.push_back(d.kind() == Datum::Kind::kTensor ? d.tensor().shape() : Shape());
  }
  profile_->add(std::move(event));
}

void Executor::release(const Program& program, Frame& f, const Step& step, bool ran) {
  for (const int s : step.release) {
    Datum& d = f.slots[index(s)];
    if (!program.cached[index(s)] || (ran && tensor_bytes(d) > kSmall)) clear(d);
  }
}

void Executor::collect(const Program& program, const std::vector<bool>& wanted, std::vector<Datum>& outputs) {
  Frame& f = frame(program);
  outputs.resize(program.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!wanted.empty() && !wanted[i]) {
      outputs[i] = Datum();
      continue;
    }
    Datum& d = f.slots[index(program.outputs[i])];
    if (program.output_movable[i]) {
      outputs[i] = std::move(d);
    } else {
      outputs[i] = d;
    }
  }
  for (const int s : program.outputs)
    if (!program.cached[index(s)]) f.slots[index(s)] = Datum();
}

}  // namespace attune
