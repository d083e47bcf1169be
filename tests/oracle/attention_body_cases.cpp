// Writes generated configurations of ai.attune::Attention for hosts to run: CASE/model.onnx (the function body as a graph)
// and CASE/data.npz (inputs, and outputs of the kernel as "expected_NAME").
//   attention_body_cases OUT COUNT
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "graph/io/npy.h"
#include "graph/io/writer.h"
#include "ops/schema/schemas.h"
#include "tests/support/attention_cases.h"

namespace attune::test {
namespace {

// The body of `c`'s node at `opset` as a model; its inputs are those that are given.
Model body_model(const AttentionCase& c, int64_t opset) {
  Graph graph;
  const Node* node = c.add_to(graph);
  Function function = function_body(*node, opset);
  Model model;
  model.ir_version = 8;
  model.opset_imports = {{"", opset}};
  model.graph = function.body;
  for (size_t i = node->inputs().size(); i-- > 0;)
    if (!c.inputs[i].defined()) model.graph->remove_input(model.graph->inputs()[i]);
  for (size_t i = model.graph->outputs().size(); i-- > 0;) {
    Value* v = model.graph->outputs()[i];
    if (c.wanted[i]) {
      const bool integers = i == kAttentionNextPosition;
      v->set_type(ValueType::of(integers ? DataType::kInt64 : c[kAttentionQuery].type()));
    } else {
      model.graph->remove_output(i);
    }
  }
  model.graph->erase_unused();
  return model;
}

void write_case(const std::filesystem::path& folder, uint32_t seed) {
  constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat, DataType::kFloat, DataType::kDouble, DataType::kFloat16};
  constexpr int64_t kOpsets[] = {13, 17, 18, 23};
  CaseGenerator generator(seed, kTypes[seed % std::size(kTypes)]);
  const AttentionCase c = generator.next();
  std::filesystem::create_directories(folder);
  Model model = body_model(c, kOpsets[seed / 5 % std::size(kOpsets)]);
  write_model(model, folder / "model.onnx");
  NamedTensors data;
  const auto outputs = c.run();
  size_t next = 0;
  for (const Value* v : model.graph->inputs()) {
    while (!c.inputs[next].defined()) ++next;
    data.emplace(v->name(), c.inputs[next++]);
  }
  next = 0;
  for (const Value* v : model.graph->outputs()) {
    while (!c.wanted[next]) ++next;
    data.emplace(fmt::format("expected_{}", v->name()), outputs[next++]);
  }
  write_npz(folder / "data.npz", data);
  std::ofstream(folder / "description.txt") << c.describe() << "\n";
}

}  // namespace
}  // namespace attune::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    for (uint32_t i = 0; i < static_cast<uint32_t>(std::stoul(argv[2])); ++i)
      attune::within([&] { return fmt::format("case {}", i); }, [&] { attune::test::write_case(std::filesystem::path(argv[1]) / fmt::format("{:04}", i), i); });
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
