// ONNX's layout of test data: FOLDER/model.onnx, FOLDER/test_data_set_N/input_I.pb and output_I.pb,
// FOLDER/tolerance.json {"rtol": ..., "atol": ...}.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/compare.h"
#include "runtime/session.h"

namespace attune {

struct OutputComparison {
  std::string data_set;  // "test_data_set_0"
  std::string output;
  Comparison comparison;
};

// The tolerance of the folder, or the default. Throws Error(kInvalidArgument) for a file that isn't such.
Tolerance read_tolerance(const std::filesystem::path& folder);
// Runs `model` on each data set of `folder` and compares each output that there is a file for.
// Throws Error where there is no data set, one has no file of an output, a file can't be read, or the model can't be
// run.
std::vector<OutputComparison> run_test_data(const Model& model, const std::filesystem::path& folder,
                                            const SessionOptions& options = {});

}  // namespace attune
