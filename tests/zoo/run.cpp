// Runs every recorded case of a zoo (a folder of FAMILY/VARIANT/*.onnx): one line per model file, and one per variant
// whose family has recorded generations.
// usage: attune_zoo ZOO [PART_OF_PATH]. Exit status 1 if one fails.
#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "graph/io/reader.h"
#include "tests/support/recorded.h"
#include "tests/support/recorded_generation.h"

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
  }
  return out;
}

Outcome run_generation(const fs::path& variant) {
  Outcome out;
  try {
    const auto outcome = test::run_recorded_generation(variant);
    out.cases = outcome.runs;
    if (!outcome.differences.empty())
      out.error = fmt::format("{} differences, first: {}", outcome.differences.size(), outcome.differences[0]);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

class Report {
 public:
  void add(const std::string& name, Outcome outcome) {
    auto& error = outcome.error;
    std::replace(error.begin(), error.end(), '\n', ' ');
    if (error.size() > 300) error = error.substr(0, 300) + " ...";
    if (error.empty()) {
      fmt::print("ok    {:<75} {:>3} cases  {:.1e}\n", name, outcome.cases, outcome.worst);
    } else {
      fmt::print("FAIL  {:<75} {}\n", name, error);
    }
    std::fflush(stdout);
    ++(error.empty() ? passed_ : failed_);
  }
  int finish() const {
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  size_t passed_ = 0, failed_ = 0;
};

int run_zoo(const fs::path& root, const std::string& part) {
  std::vector<fs::path> files;
  std::set<fs::path> variants;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".onnx" || entry.path().string().find(part) == std::string::npos) continue;
    files.push_back(entry.path());
    if (fs::exists(entry.path().parent_path().parent_path() / "generate.json"))
      variants.insert(entry.path().parent_path());
  }
  std::sort(files.begin(), files.end());
  Report report;
  for (const auto& file : files) report.add(fs::relative(file, root).string(), run_model(file));
  for (const auto& variant : variants)
    if (test::difference_from_source(variant) <= 1e-4)
      report.add(fs::relative(variant, root).string() + " (generate)", run_generation(variant));
  return report.finish();
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
