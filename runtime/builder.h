// Compiles graphs to programs. Internal to the runtime.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/plan.h"
#include "runtime/prepare.h"
#include "runtime/program.h"
#include "runtime/unsupported_nodes.h"

namespace attune {

// What the builders of one plan share.
struct BuildState {
  const PreparedGraph& prepared;
  const PlanOptions& options;
  KernelOptions kernels;                           // those of `options`, and what the model allows
  std::vector<std::shared_ptr<Program>> programs;  // by id
  std::vector<UnsupportedNode> unsupported;        // last nodes first
};

// Builds the program of one graph. Two rounds: prepare() makes the kernels, users before producers, so that what no
// kernel reads is dropped; finish() lays out slots and lifetimes, producers first, outer before inner.
class ProgramBuilder {
 public:
  ProgramBuilder(BuildState& state, const Graph& graph);
  void prepare();
  // `cached_captures`: per value of captures(), whether it is cached outside.
  void finish(const std::vector<bool>& cached_captures);

  const std::shared_ptr<Program>& program() const { return program_; }
  // Values of outer graphs that the program reads, in the order of their slots.
  const std::vector<const Value*>& captures() const { return captures_; }
  int capture_slot(size_t i) const { return slots_.at(captures_[i]); }
  bool deterministic() const { return deterministic_; }
  // Compiles a body of the node that is being prepared.
  std::shared_ptr<const Program> add_body(const Graph& body);

 private:
  struct Entry {
    const Node* node;
    std::unique_ptr<Kernel> kernel;
    std::vector<std::unique_ptr<ProgramBuilder>> bodies;
    bool deterministic;
  };

  bool needed(const Node& node) const;
  void need(const Value* value);
  void prepare_node(const Node& node);
  bool fold_late(const Node& node, const Kernel& kernel);

  int slot(const Value* value);
  int new_slot(bool cached);
  bool is_cached(int slot) const { return slot == kNoSlot || program_->cached[static_cast<size_t>(slot)]; }
  void lay_out_inputs();
  void lay_out_captures(const std::vector<bool>& cached_captures);
  void add_step(Entry& entry);
  void finish_bodies(Entry& entry, Step& step);
  void set_lifetimes();

  BuildState& state_;
  const Graph& graph_;
  std::shared_ptr<Program> program_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<ProgramBuilder>>* open_bodies_ = nullptr;
  std::unordered_set<const Value*> needed_;
  std::unordered_map<const Value*, Tensor> folded_;
  std::vector<const Value*> captures_;
  std::unordered_map<const Value*, int> slots_;
  std::vector<bool> per_call_;  // cached slots that depend on what changes from call to call of the body's node
  bool deterministic_ = true;
};

}  // namespace attune
