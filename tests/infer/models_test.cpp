// Whole models: inference of recorded exports.
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/io/reader.h"
#include "ops/infer/infer.h"

namespace attune {
namespace {

const std::filesystem::path kModels = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models";

struct Coverage {
  size_t known = 0, all = 0;
};

// Tensors of which each size is a number or an expression over the symbols of inputs.
void count_known(const Graph& graph, Coverage& coverage) {
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->output_count(); ++i) {
      const Value* v = node->output(i);
      if (!v || v->type().kind != ValueType::Kind::kTensor) continue;
      ++coverage.all;
      bool known = v->tensor_type().has_rank();
      for (int axis = 0; axis < v->tensor_type().rank(); ++axis) {
        for (const std::string& symbol : v->tensor_type().dim(axis).symbols())
          known = known && !symbol.starts_with('?');
      }
      coverage.known += known;
    }
    for (const Graph* body : node->subgraphs()) count_known(*body, coverage);
  }
}

TEST(InferModels, NearlyAllShapesAreKnown) {
  std::map<std::string, Coverage> families;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kModels)) {
    if (entry.path().extension() != ".onnx") continue;
    const Model model = read_model(entry.path());
    const Inference inference(model);
    count_known(*model.graph, families[std::filesystem::relative(entry.path(), kModels).begin()->string()]);
  }
  ASSERT_FALSE(families.empty());
  for (const auto& [family, coverage] : families) {
    const double share = static_cast<double>(coverage.known) / static_cast<double>(coverage.all);
    RecordProperty(family, std::to_string(share));
    EXPECT_GT(share, 0.99) << family << ": " << coverage.known << " of " << coverage.all;
  }
}

}  // namespace
}  // namespace attune
