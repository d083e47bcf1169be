#include "runtime/test_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/io/file_system.h"
#include "graph/io/reader.h"
#include "runtime/json_file.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> data_sets(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
    if (it->path().filename().string().starts_with("test_data_set_")) out.push_back(it->path());
  if (error) throw Error(Error::Kind::kIo, "can't list it: " + error.message());
  if (out.empty()) throw Error(Error::Kind::kInvalidArgument, "it has no folder test_data_set_*");
  std::sort(out.begin(), out.end());
  return out;
}

// As ONNX's own runner: bfloat16 may be off by two units in the last place.
Tolerance tolerance_for(const Datum& expected, Tolerance tolerance) {
  if (expected.kind() == Datum::Kind::kTensor && expected.tensor().type() == DataType::kBFloat16)
    tolerance.relative = std::max(tolerance.relative, 0x1p-6);
  return tolerance;
}

TensorMap read_inputs(const Plan& plan, const fs::path& set) {
  TensorMap inputs;
  for (size_t i = 0;; ++i) {
    const fs::path file = set / fmt::format("input_{}.pb", i);
    if (!fs::exists(file)) break;
    if (i >= plan.inputs().size())
      throw Error(Error::Kind::kInvalidArgument, fmt::format("there is an {}, and the model has {} inputs",
                                                             file.filename().string(), plan.inputs().size()));
    const Plan::Port& port = plan.inputs()[i];
    inputs.insert_or_assign(port.name, read_tensor_file(file, port.type));
  }
  return inputs;
}

void compare_outputs(const Plan& plan, const TensorMap& found, const fs::path& set, Tolerance tolerance,
                     std::vector<OutputComparison>& results) {
  const size_t before = results.size();
  const auto file = [&](size_t i) { return set / fmt::format("output_{}.pb", i); };
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const Plan::Port& port = plan.outputs()[i];
    if (!fs::exists(file(i))) continue;
    const Datum expected = read_tensor_file(file(i), port.type);
    results.push_back({set.filename().string(), port.name,
                       compare(expected, found.at(port.name), tolerance_for(expected, tolerance))});
  }
  if (fs::exists(file(plan.outputs().size())))
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("there is an {}, and the model has {} outputs",
                            file(plan.outputs().size()).filename().string(), plan.outputs().size()));
  if (results.size() == before)
    throw Error(Error::Kind::kInvalidArgument, "it has no output_*.pb: there is nothing to compare with");
}

}  // namespace

Tolerance read_tolerance(const fs::path& folder) {
  Tolerance tolerance;
  const fs::path file = folder / "tolerance.json";
  std::ifstream in(file);
  if (!in) return tolerance;
  try {
    const auto json = nlohmann::json::parse(in);
    tolerance.relative = json.value("rtol", tolerance.relative);
    tolerance.absolute = json.value("atol", tolerance.absolute);
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::kInvalidArgument, file.string() + ": " + json_fault(e));
  }
  return tolerance;
}

std::vector<OutputComparison> run_test_data(const Model& model, const fs::path& folder, const SessionOptions& options) {
  return within(folder.string(), [&] {
    return io(folder, [&] {
      const Tolerance tolerance = read_tolerance(folder);
      const auto sets = data_sets(folder);
      const auto plan = Plan::compile(model);
      Session session(plan, options);
      std::vector<OutputComparison> results;
      for (const fs::path& set : sets) {
        within(set.filename().string(),
               [&] { compare_outputs(*plan, session.run(read_inputs(*plan, set)), set, tolerance, results); });
      }
      return results;
    });
  });
}

}  // namespace attune
