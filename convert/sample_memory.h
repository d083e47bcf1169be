// How much memory made-up inputs of a model ask for, before anything is allocated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/sample_inputs.h"
#include "graph/graph.h"

namespace attune {

class SampleMemory {
 public:
  explicit SampleMemory(const Model& model);

  // Bytes of the inputs and of the values that a run in order holds at once. A lower bound: sizes that aren't known
  // count as 1, what kernels need inside isn't counted. Infinite where a size is beyond 64 bits.
  double peak(const std::vector<SampleInput>& inputs, const SampleChoice& choice) const;
  // Throws Error(kLimit) if the peak is above 1 GiB and four times the constants: real models stay far below, a small
  // file can't ask for more.
  void check(const std::vector<SampleInput>& inputs, const SampleChoice& choice) const;

 private:
  // A value that is alive from step `begin` to `end`, both included.
  struct Lifetime {
    Dims dims;
    double element_bytes;
    size_t begin, end;
  };
  using Steps = std::map<const Node*, size_t>;

  void number(const Graph& graph, Steps& steps);
  void add_lifetimes(const Graph& graph, const Steps& steps);
  void add(const Value& value, size_t begin, size_t end);

  std::map<std::string, Dims, std::less<>> input_dims_;  // as inference names their symbols
  std::vector<Lifetime> lifetimes_;
  size_t step_count_ = 0;
  double limit_ = 0;
};

}  // namespace attune
