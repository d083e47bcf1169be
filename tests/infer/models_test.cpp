// Whole models as exporters write them: what is inferred, against what runs give.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <set>

#include "graph/io/reader.h"
#include "ops/infer/infer.h"
#include "ops/infer/symbols.h"
#include "runtime/session.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(ATTUNE_SOURCE_DIR) / "tests/models";

std::vector<fs::path> models() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kModels))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string family(const fs::path& model) { return fs::relative(model, kModels).begin()->string(); }

// The sizes of symbols in a recorded run. Merged decoders' first step has pasts of made-up sizes that contradict
// the other inputs: no sizes then.
std::optional<SymbolSizes> recorded_sizes(const Graph& graph, const TensorMap& inputs) {
  std::map<std::string, Shape, std::less<>> shapes;
  for (const auto& [name, value] : inputs) shapes[name] = value.tensor().shape();
  try {
    return solve_symbols(graph, shapes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

struct Coverage {
  size_t known = 0, all = 0;
};

// A size is known if it is a number or an expression over the symbols of inputs. Inputs of unknown sizes have symbols
// of their own.
void count_known(const Graph& graph, const std::set<std::string>& inputs, Coverage& coverage) {
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->output_count(); ++i) {
      const Value* v = node->output(i);
      if (!v || v->type().kind != ValueType::Kind::kTensor) continue;
      ++coverage.all;
      bool known = v->tensor_type().has_rank();
      for (int axis = 0; axis < v->tensor_type().rank(); ++axis)
        for (const std::string& symbol : v->tensor_type().dim(axis).symbols()) known = known && inputs.contains(symbol);
      coverage.known += known ? 1 : 0;
    }
    for (const Graph* body : node->subgraphs()) count_known(*body, inputs, coverage);
  }
}

TEST(InferModels, NearlyAllShapesAreKnown) {
  std::map<std::string, Coverage> families;
  for (const fs::path& file : models()) {
    const Model model = read_model(file);
    const Inference inference(model);
    const auto symbols = input_symbols(model);
    count_known(*model.graph, {symbols.begin(), symbols.end()}, families[family(file)]);
  }
  ASSERT_FALSE(families.empty());
  for (const auto& [name, coverage] : families) {
    const double share = static_cast<double>(coverage.known) / static_cast<double>(coverage.all);
    RecordProperty(name, std::to_string(share));
    std::cout << name << ": " << coverage.known << " of " << coverage.all << " shapes are known\n";
    EXPECT_GT(share, 0.98) << name;
  }
}

// The shape of each output, for the sizes of a recorded run, is that of the recorded output.
TEST(InferModels, OutputsHaveTheRecordedShapes) {
  size_t compared = 0;
  for (const fs::path& file : models()) {
    const Model model = read_model(file);
    const Inference inference(model);
    for (const fs::path& run : test::recorded_files(file)) {
      SCOPED_TRACE(run.string());
      const auto recorded = test::read_recorded(run);
      const auto sizes = recorded_sizes(*model.graph, recorded.inputs);
      if (!sizes) continue;
      for (const Value* output : model.graph->outputs()) {
        const auto it = recorded.outputs.find(std::string(output->name()));
        const auto shape = shape_for(output->tensor_type(), *sizes);
        if (it == recorded.outputs.end() || !shape) continue;
        EXPECT_EQ(it->second.type(), output->element_type()) << output->name();
        EXPECT_EQ(it->second.shape().to_string(), shape->to_string()) << output->name();
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100u);
}

void expect_contents(const SymbolicTensor& contents, const Tensor& actual, const SymbolSizes& sizes) {
  if (contents.is_integer()) {
    const auto values = actual.to_int64();
    ASSERT_EQ(values.size(), contents.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (const auto expected = contents.integers[i].evaluate(sizes)) {
        EXPECT_EQ(*expected, values[i]);
      }
    }
    return;
  }
  const auto values = actual.to_double();
  ASSERT_EQ(values.size(), contents.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (contents.reals[i] && !std::isnan(values[i])) {
      EXPECT_NEAR(*contents.reals[i], values[i], 1e-5 * (1 + std::abs(values[i])));
    }
  }
}

// Each value inside of the models has the inferred type, shape and contents in the recorded runs.
TEST(InferModels, ValuesInsideAreAsInferred) {
  std::map<std::string, Coverage> families;
  for (const fs::path& file : models()) {
    Model model = read_model(file);
    model.graph->assign_names();
    std::vector<const Value*> values;
    for (const auto& node : model.graph->nodes())
      for (size_t i = 0; i < node->output_count(); ++i)
        if (Value* v = node->output(i); v && !v->is_graph_output()) {
          model.graph->add_output(v);
          values.push_back(v);
        }
    const Inference inference(model);
    Session session(Plan::compile(model));
    for (const fs::path& run : test::recorded_files(file)) {
      SCOPED_TRACE(run.string());
      const auto recorded = test::read_recorded(run);
      const auto sizes = recorded_sizes(*model.graph, recorded.inputs);
      if (!sizes) continue;
      const TensorMap actual = session.run(recorded.inputs);
      Coverage& coverage = families[family(file)];
      for (const Value* v : values) {
        if (v->type().kind != ValueType::Kind::kTensor) continue;
        ++coverage.all;
        const auto shape = shape_for(v->tensor_type(), *sizes);
        if (!shape) continue;
        ++coverage.known;
        const Tensor tensor = actual.at(std::string(v->name())).tensor().to_contiguous();
        EXPECT_EQ(tensor.type(), v->element_type()) << v->name();
        EXPECT_EQ(tensor.shape().to_string(), shape->to_string()) << v->name() << " " << v->type().to_string();
        if (const SymbolicTensor* contents = inference.contents(v)) expect_contents(*contents, tensor, *sizes);
      }
    }
  }
  for (const auto& [name, coverage] : families)
    EXPECT_GE(static_cast<double>(coverage.known), 0.99 * static_cast<double>(coverage.all)) << name;
}

}  // namespace
}  // namespace attune
