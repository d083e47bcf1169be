// Runs programs over frames. Internal to the runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/program.h"

namespace attune {

class Profile;
class StepCall;

// The values of one program in one session, and what is known about its cached steps.
struct Frame {
  explicit Frame(const Program& program);
  // Everything cached must be computed again (after an error in the middle of a run).
  void invalidate();

  std::vector<Datum> slots;
  std::vector<uint8_t> changed;            // per cached slot: set anew in this run
  std::vector<uint64_t> version;           // per cached slot: counts its changes
  std::vector<uint8_t> stale;              // per step: a cached step that must run whatever its inputs
  std::vector<std::vector<Shape>> shapes;  // per step that reads shapes: those it has seen
  std::vector<uint64_t> capture_versions;  // of a body: versions of the outer slots it has seen
};

class Executor {
 public:
  Executor(const std::vector<std::shared_ptr<Program>>& programs, BufferPool& pool, Profile* profile);

  Frame& frame(const Program& program) { return *frames_[program.id]; }
  // Marks a cached slot as changed in the current run.
  static void mark_changed(Frame& frame, int slot);
  // Runs the steps (those with needed[i], if `needed` is given). Inputs are in their slots, and `changed` is set.
  void run(const Program& program, const std::vector<bool>* needed = nullptr);
  // Takes outputs out of the frame: moved where nobody else needs them. `wanted` as in Session::run.
  void collect(const Program& program, const std::vector<bool>& wanted, std::vector<Datum>& outputs);
  void invalidate();
  BufferPool& pool() { return pool_; }

 private:
  static bool must_run(const Program& program, const Frame& frame, size_t step);
  void restore(const Program& program, Frame& frame, int slot);
  void run_cached(const Program& program, Frame& frame, size_t step);
  void run_step(Frame& frame, const Step& step);
  void run_profiled(StepCall& call, const Frame& frame, const Step& step);
  static void release(const Program& program, Frame& frame, const Step& step, bool ran);

  const std::vector<std::shared_ptr<Program>>& programs_;
  BufferPool& pool_;
  Profile* profile_;
  std::vector<std::unique_ptr<Frame>> frames_;  // by program id
  std::vector<Datum> before_;                   // outputs of a cached step before it runs again; memory to reuse
};

}  // namespace attune
