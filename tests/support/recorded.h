// Recorded runs of models: io_FILE_CASE.npz beside FILE.onnx holds inputs in_NAME and outputs out_NAME.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "graph/io/npy.h"
#include "runtime/session.h"

namespace attune::test {

struct RecordedCase {
  std::filesystem::path file;
  TensorMap inputs;
  NamedTensors outputs;
};

// The recorded runs of a model file, by name.
inline std::vector<std::filesystem::path> recorded_files(const std::filesystem::path& model) {
  std::vector<std::filesystem::path> found;
  const std::string prefix = "io_" + model.stem().string() + "_";
  for (const auto& entry : std::filesystem::directory_iterator(model.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || entry.path().extension() != ".npz") continue;
    // io_decoder_model_merged_0 belongs to decoder_model_merged, not to decoder_model.
    const bool other = std::any_of(std::filesystem::directory_iterator(model.parent_path()), {}, [&](const auto& f) {
      const std::string stem = f.path().stem().string();
      return f.path().extension() == ".onnx" && stem.size() > model.stem().string().size() &&
             name.starts_with("io_" + stem + "_");
    });
    if (!other) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline RecordedCase read_recorded(const std::filesystem::path& file) {
  RecordedCase out{file, {}, {}};
  for (auto& [name, tensor] : read_npz(file)) {
    if (name.starts_with("in_")) out.inputs[name.substr(3)] = tensor;
    if (name.starts_with("out_")) out.outputs[name.substr(4)] = tensor;
  }
  return out;
}

// What the variant's precision allows, relative to the largest value: float32 1e-4, float16 1e-2, int8 5e-3.
inline double tolerance(const std::filesystem::path& model) {
  const std::string variant = model.parent_path().filename().string();
  if (variant.find("fp16") != std::string::npos) return 1e-2;
  if (variant.find("int8") != std::string::npos) return 5e-3;
  return 1e-4;
}

// The largest difference over the largest value; infinite where shapes or types differ, or one is not finite.
inline double relative_difference(const Tensor& actual, const Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.type() != expected.type() || !(actual.shape() == expected.shape())) return kInfinity;
  const auto a = actual.to_double();
  const auto b = expected.to_double();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double d = std::abs(a[i] - b[i]);
    if (!(d < kInfinity)) return kInfinity;
    difference = std::max(difference, d);
  }
  if (difference == 0) return 0;
  return is_float(actual.type()) ? difference / std::max(largest, 1e-30) : kInfinity;
}

}  // namespace attune::test
