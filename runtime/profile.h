// What a session did: per call of a kernel its time, bytes and floating point operations.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "graph/shape.h"

namespace attune {

// One call of a kernel. Calls within the body of an If, Loop or Scan lie within that node's own.
struct ProfileEvent {
  using Clock = std::chrono::steady_clock;
  std::string label;  // "node '/layers.0/MatMul' (MatMul)"
  std::string op;
  std::string implementation;  // Kernel::implementation()
  Clock::time_point start, end;
  double bytes = 0;                    // of inputs (packed weights included) and outputs
  std::vector<Shape> inputs, outputs;  // weights that the kernel has taken in included; no shape for what is left out

  double microseconds() const { return std::chrono::duration<double, std::micro>(end - start).count(); }
  // Multiplications and additions of matrix products, convolutions, recurrent cells and attention (with its
  // projections), from the shapes; 0 for others.
  double flops() const;
};

// All calls of one node.
struct ProfileRow {
  std::string label, implementation;
  size_t calls = 0;
  double microseconds = 0, bytes = 0, flops = 0;  // sums
};

class Profile {
 public:
  using Clock = ProfileEvent::Clock;

  void add(ProfileEvent event) { events_.push_back(std::move(event)); }
  const std::vector<ProfileEvent>& events() const { return events_; }
  void clear() { events_.clear(); }

  // Nodes with the most time first.
  std::vector<ProfileRow> rows() const;
  // The rows as text: calls, total time, share, bytes and operations with their rates, implementation.
  std::string table() const;
  // The Chrome trace format (chrome://tracing, Perfetto): times in microseconds.
  std::string chrome_trace() const;

 private:
  std::vector<ProfileEvent> events_;
};

}  // namespace attune
