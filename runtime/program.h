// What a plan compiles a graph to: steps over a flat frame of slots. Internal to the runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace attune {

struct Program;

inline constexpr int kNoSlot = -1;

// A value that a body takes from the program around it.
struct Capture {
  int outer = kNoSlot;   // slot in the frame of the program that holds the node
  int slot = kNoSlot;    // slot in the body's frame
  bool cached = false;   // the outer slot is a cached one: unchanged as long as its version is
  bool movable = false;  // this node is the last user of the outer slot
};

struct Body {
  std::shared_ptr<const Program> program;
  std::vector<Capture> captures;
};

// One call of a kernel.
struct Step {
  std::string label;  // for error frames
  std::string op;     // "MatMul", "ai.attune.Attention"
  std::shared_ptr<const Kernel> kernel;
  std::vector<int> inputs, outputs;  // slots, or kNoSlot
  std::vector<bool> movable;         // per input: this is its last use, and nobody caches it
  std::vector<bool> strided;         // per input: the kernel takes strided views
  std::vector<int> release;          // slots that hold nothing of use after this step
  std::vector<Body> bodies;
  // A cached step runs only when something it depends on has changed since it last ran; its outputs stay in the
  // frame. A shape reader is one that compares shapes of inputs.
  bool cached = false;
  bool reads_shapes_only = false;
  double packed_bytes = 0;    // of constants that the kernel has taken in
  std::vector<Shape> packed;  // per input: the shape of such a constant
};

// The program of a graph or body. Slots are in one of three classes: constants, cached (outputs of cached steps,
// fixed inputs, and what an iterated body takes from outside), and the others, which every run sets anew.
struct Program : Subprogram {
  size_t id = 0;  // its frame's index in a session
  size_t slot_count = 0;
  std::vector<int> inputs;  // kNoSlot: nobody reads it
  std::vector<int> outputs;
  std::vector<bool> output_movable;  // per output: nobody else holds or gives out the slot
  size_t capture_count = 0;          // of a body
  std::vector<std::pair<int, Tensor>> constants;
  std::vector<Step> steps;
  std::vector<int> producer;    // per slot: the cached step that sets it, or kNoSlot
  std::vector<bool> cached;     // per slot
  std::vector<int> loop_slots;  // cached slots that live for one call of the node with this body
  bool iterated = false;        // a body that may run many times for one call of its node

  size_t input_count() const override { return inputs.size(); }
  size_t output_count() const override { return outputs.size(); }
};

}  // namespace attune
