// Runs ONNX's node tests and compares what passes with the list of what must.
//   attune_conformance LIST FOLDER [--rewritten] [--update] [--failures]
// --rewritten: passes rewrite each model before it runs.
// A listed test that fails is a failure; so is one that passes and isn't listed (but for random numbers, which may pass
// by chance). --update writes the list;
// --failures prints why each other test fails.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/io/reader.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "runtime/test_data.h"

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr int kSkipped = 77;

Names read_list(const fs::path& file) {
  Names names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.insert(line);
  return names;
}

// Why the test in `folder` fails; empty if it passes.
std::string failure(const fs::path& folder, bool rewritten) {
  try {
    attune::Model model = attune::read_model(folder / "model.onnx");
    if (rewritten) {
      attune::Report report;
      attune::optimize(model, report);
      if (!report.endless_rules.empty()) return "endless rule " + report.endless_rules.front();
    }
    for (const auto& output : attune::run_test_data(model, folder))
      if (!output.comparison.equal())
        return fmt::format("output '{}': {}", output.output, output.comparison.difference);
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

// True if the outcome is chance: a node draws random numbers.
bool is_random(const fs::path& folder) {
  bool random = false;
  try {
    const attune::Model model = attune::read_model(folder / "model.onnx");
    model.graph->for_each_node([&](const attune::Node& n) {
      const attune::OpDef* op = attune::find_op(n.domain(), n.type(), model.opset(n.domain()));
      random = random || (op && !op->deterministic);
    });
  } catch (const attune::Error&) {
    return false;
  }
  return random;
}

std::map<std::string, std::string> run_all(const fs::path& root, bool rewritten) {
  std::map<std::string, std::string> failures;
  for (const auto& entry : fs::directory_iterator(root))
    if (fs::exists(entry.path() / "model.onnx"))
      failures[entry.path().filename().string()] = failure(entry.path(), rewritten);
  return failures;
}

void write_list(const fs::path& file, const std::map<std::string, std::string>& failures) {
  std::ofstream out(file);
  out << "# ONNX's node tests that pass. attune_conformance --update writes this list.\n";
  for (const auto& [name, reason] : failures)
    if (reason.empty()) out << name << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    fmt::print(stderr, "attune_conformance LIST FOLDER [--rewritten] [--update] [--failures]\n");
    return 2;
  }
  const auto has = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  const fs::path list = arguments[0], root = arguments[1];
  if (!fs::is_directory(root)) {
    fmt::print("skipped: {} isn't there\n", root.string());
    return kSkipped;
  }
  const auto failures = run_all(root, has("--rewritten"));
  if (has("--update")) write_list(list, failures);
  const Names listed = read_list(list);

  size_t passed = 0, wrong = 0;
  for (const auto& [name, reason] : failures) {
    if (reason.empty()) ++passed;
    if (listed.contains(name) && !reason.empty()) {
      ++wrong;
      fmt::print("FAILED  {}: {}\n", name, reason);
    } else if (!listed.contains(name) && reason.empty() && !is_random(root / name)) {
      ++wrong;
      fmt::print("passes and isn't listed: add it  {}\n", name);
    } else if (!reason.empty() && has("--failures")) {
      fmt::print("not listed  {}: {}\n", name, reason);
    }
  }
  for (const auto& name : listed)
    if (!failures.contains(name)) {
      ++wrong;
      fmt::print("listed and isn't there  {}\n", name);
    }
  fmt::print("{} of {} node tests pass, {} listed\n", passed, failures.size(), listed.size());
  return wrong == 0 ? 0 : 1;
}
