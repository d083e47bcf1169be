// Random edits that spoil a model: after most of them it still runs, and computes something else.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune::test {

// The same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : generator_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(generator_() % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  // Between -1 and 1.
  double number() { return static_cast<double>(below(2001)) / 1000.0 - 1; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 generator_;
};

// A model with a graph of its own.
Model copy_of(const Model& model);

// Constants whose elements are all the same number hide what a rewrite does to their order: weights and biases among
// them get different ones.
void tell_elements_apart(Model& model, Random& random);

// Edits a random node, and forgets the types that were inferred or declared. Says what was done; empty if the edit that
// was drawn does not apply to the node that was drawn.
std::string spoil(Model& model, Random& random);

enum class Loosened { kRanks, kSizes, kNames };
inline constexpr Loosened kLoosened[] = {Loosened::kRanks, Loosened::kSizes, Loosened::kNames};
// Takes something of what is declared of the shapes of inputs away, of `all` or of random ones: their rank, their
// sizes, or that sizes of the same name are equal. Says what.
std::string loosen_declarations(Model& model, Loosened how, bool all, Random& random);

// Changes the numbers of all weights by a rounding step or so.
void disturb(Model& model, Random& random);

}  // namespace attune::test
