// Runs every recorded case of a zoo (a folder of FAMILY/VARIANT/*.onnx): one line per model file.
// usage: attune_zoo ZOO [PART_OF_PATH]. Exit status 1 if one fails.
#include <fmt/format.h>

#include <cstdio>

#include "graph/io/reader.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  double worst = 0;
  size_t cases = 0;
  std::string error;
};

Outcome run_model(const fs::path& file) {
  Outcome out;
  try {
    Session session(Plan::compile(read_model(file)));
    for (const auto& recorded_file : test::recorded_files(file)) {
      const auto recorded = test::read_recorded(recorded_file);
      const TensorMap outputs = session.run(recorded.inputs);
      for (const auto& [name, expected] : recorded.outputs) {
        const double d = test::relative_difference(outputs.at(name).tensor(), expected);
        if (d > test::tolerance(file) && out.error.empty())
          out.error = fmt::format("{}: output {} differs by {:.2g}", recorded_file.filename().string(), name, d);
        out.worst = std::max(out.worst, d);
      }
      ++out.cases;
    }
    if (out.cases == 0) out.error = "no recorded case";
  } catch (const std::exception& e) {
    out.error = e.what();
    std::replace(out.error.begin(), out.error.end(), '\n', ' ');
    if (out.error.size() > 300) out.error = out.error.substr(0, 300) + " ...";
  }
  return out;
}

int run_zoo(const fs::path& root, const std::string& part) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.path().extension() == ".onnx" && entry.path().string().find(part) != std::string::npos)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  size_t failed = 0;
  for (const auto& file : files) {
    const Outcome outcome = run_model(file);
    const std::string name = fs::relative(file, root).string();
    if (outcome.error.empty()) {
      fmt::print("ok    {:<75} {:>3} cases  {:.1e}\n", name, outcome.cases, outcome.worst);
    } else {
      fmt::print("FAIL  {:<75} {}\n", name, outcome.error);
      ++failed;
    }
    std::fflush(stdout);
  }
  fmt::print("{} passed, {} failed\n", files.size() - failed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace attune

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: attune_zoo ZOO [PART_OF_PATH]\n");
    return 2;
  }
  return attune::run_zoo(argv[1], argc == 3 ? argv[2] : "");
}
