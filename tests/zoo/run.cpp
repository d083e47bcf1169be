// Runs every recorded case of a zoo (a folder of FAMILY/VARIANT/*.onnx), each model as it was exported and converted: a
// line for each model file, one for its verified conversion to each target, and one for each variant whose family has
// recorded generations. A converted model must have the
// number of attentions that the zoo's manifest.tsv counts. usage: attune_zoo ZOO [PART_OF_PATH]. Exit status 1 if one
// fails.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "convert/convert.h"
#include "graph/io/reader.h"
#include "tests/support/instruction_set.h"
#include "tests/support/recorded.h"
#include "tests/support/recorded_generation.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  double worst = 0;
  size_t cases = 0;
  std::string error;
};

// Attentions by file, from manifest.tsv.
std::map<std::string, size_t> manifest(const fs::path& root) {
  std::map<std::string, size_t> out;
  std::ifstream in(root / "manifest.tsv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::vector<std::string> f;
    for (std::string field; std::getline(fields, field, '\t');) f.push_back(field);
    if (f.size() > 4) out[f[0]] = std::stoul(f[4]);
  }
  return out;
}

// `attentions`: the model is converted first, and must have so many then.
Outcome run_model(const fs::path& file, std::optional<size_t> attentions) {
  Outcome out;
  try {
    Model model = read_model(file);
    if (attentions) {
      attune::Report report;
      optimize(model, report);
      size_t found = 0;
      model.graph->for_each_node([&](const Node& n) { found += n.is("Attention", "ai.attune") ? 1 : 0; });
      if (found != *attentions)
        out.error = fmt::format("{} attentions instead of {}{}", found, *attentions,
                                report.near_misses.empty() ? "" : ": " + report.near_misses.front().reason);
    }
    Session session(Plan::compile(model));
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

// The conversion must find inputs that the source takes, and agree on them.
Outcome run_verified(const fs::path& file, Target target) {
  Outcome out;
  try {
    const test::TemporaryFolder temporary;
    ConvertOptions options;
    options.target = target;
    const Conversion c = convert(file, temporary / "converted.onnx", options);
    const Verification& v = *c.models.at(0).verification;
    out.cases = v.compared;
    out.worst = v.largest_relative;
    if (v.compared == 0) {
      out.error = "no made-up inputs fit: " + (v.cases.empty() ? std::string("none") : v.cases[0].refused);
    } else if (!c.written) {
      out.error = fmt::format("differs by {:.2g}", v.largest_relative);
    }
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

Outcome run_generation(const fs::path& variant, bool converted) {
  Outcome out;
  try {
    const test::TemporaryFolder temporary;
    fs::path folder = variant;
    if (converted) {
      folder = temporary.path() / "converted";
      ConvertOptions options;
      options.verify = false;
      convert(variant, folder, options);
      // Configuration that lies beside the variants counts for them all.
      for (const char* name : {"config.json", "generation_config.json"})
        if (fs::exists(variant.parent_path() / name) && !fs::exists(folder / name))
          fs::copy_file(variant.parent_path() / name, folder / name);
    }
    const auto outcome = test::run_recorded_generation(variant.parent_path(), folder);
    out.cases = outcome.runs;
    if (!outcome.differences.empty())
      out.error = fmt::format("{} differences, first: {}", outcome.differences.size(), outcome.differences[0]);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

// Differences whose cause is known and isn't ours to mend, with the cause: known.tsv. What is listed may also pass
// (some depend on the CPU).
std::map<std::string, std::string> known_differences() {
  std::map<std::string, std::string> out;
  std::ifstream in(fs::path(ATTUNE_SOURCE_DIR) / "tests/zoo/known.tsv");
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) out[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return out;
}

class Table {
 public:
  void add(const std::string& path, const std::string& how, Outcome outcome) {
    const std::string name = path + how;
    auto& error = outcome.error;
    if (const auto it = known_.find(path); it != known_.end() && !error.empty()) {
      fmt::print("known {:<75} {}: {}\n", name, error.substr(0, 80), it->second);
      ++known_count_;
      return;
    }
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
    if (known_count_ > 0) fmt::print("{} known differences, see tests/zoo/known.tsv\n", known_count_);
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  const std::map<std::string, std::string> known_ = known_differences();
  size_t passed_ = 0, failed_ = 0, known_count_ = 0;
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
  Table report;
  const auto attentions = manifest(root);
  for (const auto& file : files) {
    const std::string name = fs::relative(file, root).string();
    report.add(name, "", run_model(file, std::nullopt));
    const auto known = attentions.find(name);
    if (known != attentions.end()) report.add(name, " (converted)", run_model(file, known->second));
    for (const char* target : {"attune", "portable", "onnx"})
      report.add(name, fmt::format(" (verified, {})", target), run_verified(file, target_from_name(target)));
  }
  for (const auto& variant : variants) {
    if (test::difference_from_source(variant) > 1e-4) continue;
    const std::string name = fs::relative(variant, root).string();
    report.add(name, " (generate)", run_generation(variant, false));
    report.add(name, " (generate, converted)", run_generation(variant, true));
  }
  return report.finish();
}

}  // namespace
}  // namespace attune

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: attune_zoo ZOO [PART_OF_PATH]\n");
    return 2;
  }
  attune::test::limit_instruction_set();
  return attune::run_zoo(argv[1], argc == 3 ? argv[2] : "");
}
