// ONNX's attention node tests with the operator expanded into its function body: the body must fuse back into one
// ai.attune::Attention, and give what the test expects.
//   attune_expanded_attention LIST FOLDER
// LIST has those that are no attention of ours, with the reason, one a line: name, tab, reason. A listed test that
// fuses is a failure too.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "graph/io/reader.h"
#include "passes/pass.h"
#include "runtime/test_data.h"

namespace {

namespace fs = std::filesystem;

constexpr int kSkipped = 77;

std::map<std::string, std::string> read_list(const fs::path& file) {
  std::map<std::string, std::string> reasons;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') reasons[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  return reasons;
}

// Why the expanded test in `folder` doesn't become one attention; empty if it does.
std::string why_not_fused(const fs::path& folder) {
  attune::Model model = attune::read_model(folder / "model.onnx");
  attune::Report report;
  attune::optimize(model, report);
  size_t attentions = 0;
  std::string left;
  model.graph->for_each_node([&](const attune::Node& n) {
    if (n.is("Attention", "ai.attune")) ++attentions;
    if (n.is("Softmax") || n.is("MatMul") || n.is("Tanh")) left = n.type();
  });
  if (attentions != 1 || !left.empty()) {
    std::string why = fmt::format("{} attentions, {} left", attentions, left.empty() ? "nothing" : left);
    for (const auto& miss : report.near_misses)
      why += fmt::format("; {} stopped at {}: {}", miss.rule, miss.path, miss.reason);
    return why;
  }
  for (const auto& output : attune::run_test_data(model, folder))
    if (!output.comparison.equal()) return fmt::format("output '{}': {}", output.output, output.comparison.difference);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "attune_expanded_attention LIST FOLDER\n");
    return 2;
  }
  const fs::path root = argv[2];
  if (!fs::is_directory(root)) {
    fmt::print("skipped: {} isn't there\n", root.string());
    return kSkipped;
  }
  auto reasons = read_list(argv[1]);
  size_t fused = 0, others = reasons.size(), wrong = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name.find("attention") == std::string::npos || name.find("expanded") == std::string::npos) continue;
    std::string why;
    try {
      why = why_not_fused(entry.path());
    } catch (const std::exception& e) {
      why = e.what();
    }
    const bool listed = reasons.erase(name) > 0;
    fused += why.empty() ? 1 : 0;
    if (listed != why.empty()) continue;
    ++wrong;
    fmt::print("{}: {}\n", name, listed ? "is listed, but fuses" : why);
  }
  for (const auto& [name, reason] : reasons) {
    ++wrong;
    fmt::print("{}: is listed and isn't there\n", name);
  }
  fmt::print("{} expanded attentions fuse, {} are no attention\n", fused, others);
  return wrong == 0 && fused > 0 ? 0 : 1;
}
