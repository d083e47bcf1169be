// What Hugging Face generates (generate.json of a family) against what attune does from a variant's files.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/io/npy.h"
#include "runtime/generator.h"

namespace attune::test {

inline TensorMap generation_inputs(const nlohmann::json& recorded, const std::filesystem::path& family) {
  TensorMap inputs;
  if (recorded.contains("inputs_npz")) {
    for (auto& [name, tensor] : read_npz(family / recorded["inputs_npz"].get<std::string>())) inputs[name] = tensor;
    return inputs;
  }
  for (const auto& [name, rows] : recorded["inputs"].items()) {
    const auto matrix = rows.get<std::vector<std::vector<int64_t>>>();
    std::vector<int64_t> flat;
    for (const auto& row : matrix) flat.insert(flat.end(), row.begin(), row.end());
    inputs[name] =
        Tensor::from<int64_t>({static_cast<int64_t>(matrix.size()), static_cast<int64_t>(matrix[0].size())}, flat);
  }
  return inputs;
}

// How far the variant's outputs lie from those of the model that generate.json was recorded with (check.json);
// beyond 1e-4 (16 bits, int8, approximated GELU) other tokens are no error.
inline double difference_from_source(const std::filesystem::path& variant) {
  std::ifstream file(variant / "check.json");
  if (!file) return 0;
  double worst = 0;
  const auto check = nlohmann::json::parse(file);
  const auto differences = check.value("max_rel_diff_to_source", nlohmann::json::object());
  for (const auto& [name, difference] : differences.items())
    if (difference.is_number()) worst = std::max(worst, difference.get<double>());
  return worst;
}

struct GenerationOutcome {
  size_t runs = 0;
  std::vector<std::string> differences;
};

// Runs every recorded case and setting of the family with the model in `folder` (the variant, or what it was converted
// to). Greedy runs whose two best tokens came closer than 1e-3 are left out.
inline GenerationOutcome run_recorded_generation(const std::filesystem::path& family,
                                                 const std::filesystem::path& folder) {
  std::ifstream file(family / "generate.json");
  const auto recorded = nlohmann::json::parse(file);
  Generator generator = Generator::load(folder);
  GenerationOutcome out;
  for (size_t c = 0; c < recorded["cases"].size(); ++c) {
    const auto& one = recorded["cases"][c];
    const TensorMap inputs = generation_inputs(one, family);
    for (const auto& [name, run] : one["runs"].items()) {
      if (run.value("min_top1_top2_gap", 1.0) < 1e-3) continue;
      GenerationOptions options = generator.defaults();
      read_generation_options(run["args"].dump(), options);
      options.max_new_tokens = recorded["max_new_tokens"].get<int64_t>();
      const auto generations = generator.generate(inputs, options);
      ++out.runs;
      const nlohmann::json sequences = padded_sequences(generations, options);
      if (sequences != run["sequences"])
        out.differences.push_back(
            fmt::format("case {} {}: {} instead of {}", c, name, sequences.dump(), run["sequences"].dump()));
      if (!run.contains("sequences_scores")) continue;
      size_t i = 0;
      for (const auto& source : generations)
        for (const Generation& g : source) {
          const double expected = run["sequences_scores"].at(i++).get<double>();
          if (!(std::abs(g.score.value_or(1e30F) - expected) <= 1e-4 * std::max(1.0, std::abs(expected))))
            out.differences.push_back(
                fmt::format("case {} {}: score {} instead of {}", c, name, g.score.value_or(NAN), expected));
        }
    }
  }
  return out;
}

}  // namespace attune::test
