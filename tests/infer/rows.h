// Rows of tests: a graph in ONNX's text, and what is inferred of its outputs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/io/text.h"
#include "ops/infer/infer.h"

namespace attune::test {

// "float(b,64)", and the elements where some are known: "int64(3) [b,?,64]".
inline std::string describe(const Inference& inference, const Value* value) {
  std::string out = value->type().to_string();
  const SymbolicTensor* contents = inference.contents(value);
  if (!contents) return out;
  std::vector<std::string> elements;
  for (const Dim& d : contents->integers) elements.push_back(d.to_string());
  for (const auto& r : contents->reals) elements.push_back(r ? fmt::format("{:.6g}", *r) : "?");
  return out + fmt::format(" [{}]", fmt::join(elements, ","));
}

inline Model parse_graph(const std::string& graph, int opset = 21) {
  return parse_model(
      fmt::format("<ir_version: 10, opset_import: [\"\" : {}, \"com.microsoft\" : 1, \"ai.attune\" : 1, "
                  "\"local\" : 1]>\n{}",
                  opset, graph));
}

// The outputs, separated by "; ", or the error.
inline std::string infer_text(const std::string& graph, int opset = 21) {
  try {
    const Model model = parse_graph(graph, opset);
    const Inference inference(model);
    std::vector<std::string> outputs;
    for (const Value* v : model.graph->outputs()) outputs.push_back(describe(inference, v));
    return fmt::format("{}", fmt::join(outputs, "; "));
  } catch (const Error& e) {
    return std::string(e.kind() == Error::Kind::kInvalidModel ? "invalid: " : "other error: ") + e.what();
  }
}

struct Row {
  std::string graph;     // "(inputs) => (outputs) { nodes }"
  std::string expected;  // as infer_text gives
  int opset = 21;
};

inline void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(infer_text("g " + row.graph, row.opset), row.expected) << row.graph;
}

}  // namespace attune::test
