// libattune_openvino.so in a C++ program: Core::add_extension, dynamic shapes, 8 threads, and a round trip through
// OpenVINO's files.
#include <gtest/gtest.h>

#include <cmath>
#include <openvino/openvino.hpp>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace attune::testing {
namespace {

ov::Core& core() {
  static ov::Core core = [] {
    ov::Core c;
    c.add_extension(ATTUNE_BINARY_DIR "/libattune_openvino.so");
    c.set_property("CPU", {{"INFERENCE_PRECISION_HINT", "f32"}, {"INFERENCE_NUM_THREADS", "2"}});
    return c;
  }();
  return core;
}

// attention.onnx: context y and weights w of q (B, 1, T, 4), k and v (B, 1, S, 4), scale 0.25.
std::shared_ptr<ov::Model> read(const char* name) {
  return core().read_model(std::string(ATTUNE_SOURCE_DIR "/tests/hosts/") + name);
}

ov::Tensor waves(const ov::Shape& shape, float step) {
  ov::Tensor t(ov::element::f32, shape);
  for (size_t i = 0; i < t.get_size(); ++i) t.data<float>()[i] = std::sin(step * static_cast<float>(i));
  return t;
}

void check(ov::CompiledModel& compiled, size_t queries, size_t keys, float step) {
  ov::InferRequest request = compiled.create_infer_request();
  const ov::Tensor q = waves({1, 1, queries, 4}, step), k = waves({1, 1, keys, 4}, 0.7F),
                   v = waves({1, 1, keys, 4}, 1.3F);
  request.set_tensor("q", q);
  request.set_tensor("k", k);
  request.set_tensor("v", v);
  request.infer();
  const ov::Tensor y = request.get_tensor("y"), w = request.get_tensor("w");
  ASSERT_EQ(y.get_shape(), (ov::Shape{1, 1, queries, 4}));
  ASSERT_EQ(w.get_shape(), (ov::Shape{1, 1, queries, keys}));
  for (size_t t = 0; t < queries; ++t) {
    std::vector<double> scores(keys), context(4);
    double sum = 0;
    for (size_t i = 0; i < keys; ++i) {
      for (size_t e = 0; e < 4; ++e)
        scores[i] += 0.25 * double{q.data<float>()[t * 4 + e]} * double{k.data<float>()[i * 4 + e]};
      sum += scores[i] = std::exp(scores[i]);
    }
    for (size_t i = 0; i < keys; ++i) {
      EXPECT_NEAR(double{w.data<float>()[t * keys + i]}, scores[i] / sum, 1e-5);
      for (size_t e = 0; e < 4; ++e) context[e] += scores[i] / sum * double{v.data<float>()[i * 4 + e]};
    }
    for (size_t e = 0; e < 4; ++e) EXPECT_NEAR(double{y.data<float>()[t * 4 + e]}, context[e], 1e-5);
  }
}

TEST(OpenVino, ShapesMayChangeFromCallToCall) {
  ov::CompiledModel compiled = core().compile_model(read("attention.onnx"), "CPU");
  for (const auto& [queries, keys] : {std::pair<size_t, size_t>{1, 1}, {3, 7}, {40, 70}, {2, 3}})
    check(compiled, queries, keys, 0.3F);
}

TEST(OpenVino, EightThreadsShareAModel) {
  ov::CompiledModel compiled = core().compile_model(read("attention.onnx"), "CPU");
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < 8; ++i)
    threads.emplace_back([&compiled, i] {
      for (size_t call = 0; call < 3; ++call) check(compiled, 1 + i, 5 + call * 30, 0.1F * static_cast<float>(i + 1));
    });
}

TEST(OpenVino, ShapesAreInferredBeforeARun) {
  const auto model = read("attention.onnx");
  EXPECT_EQ(model->output("y").get_partial_shape(), (ov::PartialShape{-1, 1, -1, 4}));
  EXPECT_EQ(model->output("w").get_partial_shape(), (ov::PartialShape{-1, 1, -1, -1}));
  model->reshape({{"q", {1, 1, 3, 4}}, {"k", {1, 1, 7, 4}}, {"v", {1, 1, 7, 4}}});
  EXPECT_EQ(model->output("w").get_partial_shape(), (ov::PartialShape{1, 1, 3, 7}));
  ov::CompiledModel compiled = core().compile_model(model, "CPU");
  check(compiled, 3, 7, 0.3F);
}

TEST(OpenVino, OpenVinosOwnFilesKeepTheOperator) {
  const test::TemporaryFolder folder;
  const auto file = (folder.path() / "attention.xml").string();
  ov::save_model(read("attention.onnx"), file, false);
  ov::CompiledModel compiled = core().compile_model(core().read_model(file), "CPU");
  check(compiled, 3, 7, 0.3F);
}

TEST(OpenVino, AWrongNodeIsAnErrorWithAReason) {
  try {
    read("no_heads.onnx");
    FAIL() << "no heads were accepted";
  } catch (const ov::Exception& e) {
    EXPECT_NE(std::string(e.what()).find("num_heads"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace attune::testing
