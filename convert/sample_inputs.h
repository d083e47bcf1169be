// Inputs made up for a model, so that two versions of it can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "ops/infer/infer.h"

namespace attune {

enum class Padding { kNone, kRight, kLeft, kScattered };

// What an input stands for, told from what the graph does with it.
enum class InputRole {
  kFloat,    // any numbers
  kIndex,    // looks rows of a table up: values below `bound`
  kMask,     // 0 or 1 per position; no row is empty. Or ids, where the graph compares with other numbers than 0
  kLengths,  // rank 1 integers that aren't looked up: numbers of positions
  kNumber,   // an integer scalar
  kFlag      // a bool of one element
};

struct SampleInput {
  std::string name;
  InputRole role = InputRole::kFloat;
  DataType type = DataType::kFloat;
  Dims dims;
  int64_t bound = 0;                  // kIndex: rows of the smallest table
  std::vector<int64_t> compared;      // kIndex, kMask: numbers that the graph compares with, as the id of padding
  std::optional<IntegerRange> range;  // integers that an operator needs, such as the length of a cache
};

// The inputs of the model that have no default; `types`: what operators need of integers, if given. A size that isn't
// declared becomes the symbol INPUT#AXIS. Throws Error(kUnsupported) for what can't be made up: no rank, or a
// type that is no tensor of numbers or bools.
std::vector<SampleInput> sample_inputs(const Model& model, const Inference* types = nullptr);
std::string undeclared_size(std::string_view input, size_t axis);
// The symbols of their dimensions, in order of first use.
std::vector<std::string> sample_symbols(const std::vector<SampleInput>& inputs);

// Whether some input has positions of padding: masks, and ids that are compared.
bool has_padding(const std::vector<SampleInput>& inputs);

struct SampleChoice {
  std::map<std::string, int64_t, std::less<>> sizes;  // of every symbol
  Padding padding = Padding::kNone;
  bool flag = false;  // of kFlag inputs
  uint64_t seed = 0;
};

// Tensors of these sizes; the same choice gives the same values. Throws Error(kInvalidArgument) if a dimension can't be
// computed from the sizes, or is negative.
std::map<std::string, Datum, std::less<>> make_sample(const std::vector<SampleInput>& inputs,
                                                      const SampleChoice& choice);

}  // namespace attune
