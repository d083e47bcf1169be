// Runs one node in a test: inputs as tensors, or some of them as constants.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/evaluate.h"
#include "ops/op.h"

namespace attune::testing {

struct NodeUnderTest {
  std::string type = {};
  std::string domain = {};
  Attributes attributes = {};
  int64_t opset = 21;
  size_t outputs = 1;
  size_t first_constant = ~size_t{0};  // inputs from here on are constants of the model
};

// Undefined tensors are inputs left out.
inline std::vector<Datum> run_node(const NodeUnderTest& test, const std::vector<Tensor>& inputs) {
  Graph graph;
  std::vector<Value*> values;
  std::vector<Datum> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      values.push_back(nullptr);
    } else if (i >= test.first_constant) {
      values.push_back(graph.add_constant(inputs[i]));
    } else {
      values.push_back(graph.add_input(std::string("i").append(std::to_string(i)), ValueType::of(inputs[i].type())));
    }
    data.emplace_back(inputs[i]);
  }
  const Node* node = graph.add_node(test.domain, test.type, values, test.outputs, test.attributes);
  return evaluate(*node, test.opset, std::move(data));
}

inline Tensor random_tensor(const Shape& shape, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(low, high);
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = values(generator);
  return t;
}

template <class T>
Tensor random_integers(const Shape& shape, uint32_t seed, int low, int high) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> values(low, high);
  Tensor t = Tensor::allocate(kDataTypeOf<T>, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<T>()[i] = static_cast<T>(values(generator));
  return t;
}

// The largest |a - b| / max(|b|, floor); NaN equals NaN, infinities equal themselves. 1e30 if the sizes differ.
inline double largest_error(const Tensor& a, const std::vector<double>& b, double floor = 1.0) {
  const std::vector<double> x = a.to_double();
  if (x.size() != b.size()) return 1e30;
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == b[i] || (std::isnan(x[i]) && std::isnan(b[i]))) continue;
    const double error = std::abs(x[i] - b[i]) / std::max(std::abs(b[i]), floor);
    worst = std::isnan(error) ? 1e30 : std::max(worst, error);
  }
  return worst;
}

}  // namespace attune::testing
