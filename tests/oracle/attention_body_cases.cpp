// Writes generated configurations of ai.attune::Attention for hosts to run: CASE/model.onnx (the function body as a
// graph), CASE/lowered.onnx (the standard Attention, where it serves), and CASE/data.npz (inputs, and outputs of the
// kernel).
//   attention_body_cases OUT COUNT
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "graph/io/npy.h"
#include "graph/io/writer.h"
#include "ops/schema/attention_lowering.h"
#include "ops/schema/schemas.h"
#include "tests/support/attention_cases.h"

namespace attune::test {
namespace {

// A function that stands for `c`'s node as a model; its inputs and outputs are those that are given and wanted.
Model model_of(const AttentionCase& c, Function function) {
  Model model;
  model.ir_version = 8;
  model.opset_imports = function.opset_imports;
  model.graph = function.body;
  for (size_t i = model.graph->inputs().size(); i-- > 0;)
    if (!c.inputs[i].defined()) model.graph->remove_input(model.graph->inputs()[i]);
  for (size_t i = model.graph->outputs().size(); i-- > 0;) {
    Value* v = model.graph->outputs()[i];
    if (c.wanted[i]) {
      const bool integers = i == kAttentionNextPosition;
      v->set_type(ValueType::of(integers ? DataType::kInt64 : c[kAttentionQuery].type()));
      v->set_name(fmt::format("output{}", i));
    } else {
      model.graph->remove_output(i);
    }
  }
  for (size_t i = 0, k = 0; i < c.inputs.size(); ++i)
    if (c.inputs[i].defined()) model.graph->inputs()[k++]->set_name(fmt::format("input{}", i));
  model.graph->erase_unused();
  return model;
}

void write_lowered(const AttentionCase& c, const Node& node, int64_t opset, const std::filesystem::path& file) {
  try {
    Model model = model_of(c, lowered_attention(node, opset));
    write_model(model, file);
  } catch (const Error& e) {
    if (e.kind() != Error::Kind::kUnsupported) throw;
  }
}

void write_case(const std::filesystem::path& folder, uint32_t seed) {
  constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat, DataType::kFloat, DataType::kDouble,
                                 DataType::kFloat16};
  constexpr int64_t kOpsets[] = {13, 17, 18, 23};
  CaseGenerator generator(seed, kTypes[seed % std::size(kTypes)]);
  const AttentionCase c = generator.next();
  std::filesystem::create_directories(folder);
  Graph graph;
  const Node* node = c.add_to(graph);
  Model model = model_of(c, function_body(*node, kOpsets[seed / 5 % std::size(kOpsets)], {.branches = seed % 3 != 0}));
  write_model(model, folder / "model.onnx");
  // Hosts refuse what has no element.
  const bool empty = std::any_of(c.inputs.begin(), c.inputs.begin() + kAttentionQueryWeight,
                                 [](const Tensor& t) { return t.defined() && t.count() == 0; });
  if (!generator.poisoned() && !empty) write_lowered(c, *node, 23 + seed % 3, folder / "lowered.onnx");
  NamedTensors data;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.inputs[i].defined()) data.emplace(fmt::format("input{}", i), c.inputs[i]);
  const auto outputs = c.run();
  for (size_t i = 0; i < c.wanted.size(); ++i)
    if (c.wanted[i]) data.emplace(fmt::format("output{}", i), outputs[i]);
  write_npz(folder / "data.npz", data);
  std::ofstream(folder / "description.txt") << c.describe() << "\n";
}

}  // namespace
}  // namespace attune::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    for (uint32_t i = 0; i < static_cast<uint32_t>(std::stoul(argv[2])); ++i)
      attune::within([&] { return fmt::format("case {}", i); },
                     [&] { attune::test::write_case(std::filesystem::path(argv[1]) / fmt::format("{:04}", i), i); });
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
