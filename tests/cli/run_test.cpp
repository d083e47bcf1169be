#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/program.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::run_attune;
using test::TemporaryFolder;

constexpr const char* kText = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  main (float[n, 2] x, float[2] b) => (float[n, 2] y) { y = Add(x, b) })";

// m.onnx: y = x + b, with in.npz, x.npy and b.pb for it.
struct Sum {
  TemporaryFolder folder;
  std::string model = (folder / "m.onnx").string();
  const Tensor x = Tensor::from<float>({2, 2}, {1, 2, 3, 4}), b = Tensor::from<float>({2}, {10, 20});

  Sum() {
    Model m = parse_model(kText);
    write_model(m, model);
    write_npz(folder / "in.npz", {{"x", x}, {"b", b}});
    write_npy(folder / "x.npy", x);
    folder.write("b.pb", serialize_tensor(b));
  }
  std::string path(const char* name) const { return (folder / name).string(); }
  std::vector<double> output() const { return read_npz(folder / "out.npz").at("y").to_double(); }
};

TEST(Run, InputsFromAnArchiveOrFiles) {
  const Sum sum;
  const auto first = run_attune({"run", sum.model, "--inputs", sum.path("in.npz"), "--output", sum.path("out.npz")});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(sum.output(), (std::vector<double>{11, 22, 13, 24}));
  EXPECT_NE(first.out.find("y  float(2,2)  min 11  max 24"), std::string::npos) << first.out;
  fs::remove(sum.folder / "out.npz");
  const auto second =
      run_attune({"run", sum.model, "--input", "x=" + sum.path("x.npy"), "--input", "b=" + sum.path("b.pb"), "--output",
                  sum.path("out.npz"), "--threads", "1", "--json"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(sum.output(), (std::vector<double>{11, 22, 13, 24}));
  EXPECT_EQ(nlohmann::json::parse(second.out)["outputs"][0]["max"], 24.0);
}

TEST(Run, Profile) {
  const Sum sum;
  const auto table = run_attune({"run", sum.model, "--inputs", sum.path("in.npz"), "--profile"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("Add"), std::string::npos) << table.out;
  const auto both = run_attune({"run", sum.model, "--inputs", sum.path("in.npz"), "--profile", sum.path("trace.json")});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("implementation"), std::string::npos) << both.out;
  EXPECT_FALSE(nlohmann::json::parse(test::read_file(sum.folder / "trace.json")).empty());
  const auto json = run_attune({"run", sum.model, "--inputs", sum.path("in.npz"), "--json", "--profile"});
  const auto rows = nlohmann::json::parse(json.out)["profile"];
  EXPECT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["calls"], 1);
}

TEST(Run, BadInputs) {
  const Sum sum;
  const auto with = [&](const NamedTensors& inputs) {
    write_npz(sum.folder / "bad.npz", inputs);
    return run_attune({"run", sum.model, "--inputs", sum.path("bad.npz")});
  };
  expect_error(with({{"x", sum.x}}), "'b'");
  expect_error(with({{"x", sum.x}, {"b", sum.b}, {"c", sum.b}}), "no input 'c'; it has 'x', 'b'");
  expect_error(with({{"x", sum.x}, {"b", Tensor::from<double>({2}, {1, 2})}}), "'b'");
  expect_error(with({{"x", sum.b}, {"b", sum.b}}), "'x'");
  expect_error(with({{"x", sum.x}, {"b", Tensor::from<float>({3}, {1, 2, 3})}}), "'b'");
  expect_error(run_attune({"run", sum.model, "--input", "x"}), "expected NAME=FILE");
  expect_error(run_attune({"run", sum.model, "--input", "x=" + sum.model}), "expected a .npy or .pb file");
  expect_error(run_attune({"run", sum.model, "--inputs", sum.model}), "isn't a .npz file");
  expect_error(run_attune({"run"}), "expected a MODEL");
  expect_error(run_attune({"run", sum.model, "--inputs", sum.path("in.npz"), "--output", sum.path("missing/o.npz")}),
               "missing/o.npz: can't create it");
}

TEST(Run, UnknownOperatorsAreNamedTogether) {
  const Sum sum;
  Model m = parse_model(R"(
    <ir_version: 8, opset_import: ["" : 17, "some.where" : 1]>
    main (float[n] x) => (float[n] y) { a = some.where.First(x) y = some.where.Second(a) })");
  write_model(m, sum.folder / "odd.onnx");
  const auto outcome = run_attune({"run", sum.path("odd.onnx"), "--inputs", sum.path("in.npz")});
  expect_error(outcome, "First");
  expect_error(outcome, "Second");
}

// ONNX's layout, with an output that is right, slightly off, or wrong.
TEST(Run, TestData) {
  const Sum sum;
  const fs::path set = sum.folder / "t/test_data_set_0";
  fs::create_directories(set);
  fs::copy(sum.folder / "m.onnx", sum.folder / "t/model.onnx");
  const auto put = [&](const char* name, const Tensor& t) {
    sum.folder.write(std::string("t/test_data_set_0/") + name, serialize_tensor(t));
  };
  put("input_0.pb", sum.x);
  put("input_1.pb", sum.b);
  put("output_0.pb", Tensor::from<float>({2, 2}, {11, 22, 13, 24}));
  const auto right = run_attune({"run", "--test-data", sum.path("t")});
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_NE(right.out.find("1 passed, 0 failed"), std::string::npos);

  put("output_0.pb", Tensor::from<float>({2, 2}, {11, 22, 13, 24.02f}));  // within 1e-3 of 24.02
  EXPECT_EQ(run_attune({"run", sum.model, "--test-data", sum.path("t")}).code, 0);
  sum.folder.write("t/tolerance.json", R"({"rtol": 1e-4, "atol": 0})");
  const auto off = run_attune({"run", sum.model, "--test-data", sum.path("t"), "--json"});
  EXPECT_EQ(off.code, 1);
  const auto report = nlohmann::json::parse(off.out);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_NE(report["results"][0]["reason"].get<std::string>().find("output 'y': element (1,1): expected 24.02"),
            std::string::npos)
      << off.out;

  const auto several = run_attune({"run", "--test-data", sum.path("t"), sum.path("missing")});
  EXPECT_EQ(several.code, 2);
  EXPECT_NE(several.out.find("0 passed, 2 failed"), std::string::npos) << several.out;
  sum.folder.write("t/tolerance.json", "nonsense");
  EXPECT_EQ(run_attune({"run", "--test-data", sum.path("t")}).code, 2);
}

TEST(Run, TestDataWithoutOutputsProvesNothing) {
  const Sum sum;
  const fs::path set = sum.folder / "t/test_data_set_0";
  fs::create_directories(set);
  fs::copy(sum.folder / "m.onnx", sum.folder / "t/model.onnx");
  for (const auto& [name, tensor] : {std::pair{"input_0.pb", sum.x}, {"input_1.pb", sum.b}})
    sum.folder.write(std::string("t/test_data_set_0/") + name, serialize_tensor(tensor));
  const auto outcome = run_attune({"run", "--test-data", sum.path("t")});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_NE(outcome.out.find("there is nothing to compare with"), std::string::npos) << outcome.out;
  for (const char* name : {"output_0.pb", "output_1.pb"})
    sum.folder.write(std::string("t/test_data_set_0/") + name,
                     serialize_tensor(Tensor::from<float>({2, 2}, {11, 22, 13, 24})));
  const auto more = run_attune({"run", "--test-data", sum.path("t")});
  EXPECT_EQ(more.code, 2) << more.out;
  EXPECT_NE(more.out.find("there is an output_1.pb, and the model has 1 outputs"), std::string::npos) << more.out;
}

// Names of files needn't be UTF-8; what is printed must be.
TEST(Run, TraceOfNamesThatAreNotUtf8) {
  const Sum sum;
  Model m = read_model(sum.folder / "m.onnx");
  m.graph->nodes().front()->name = "caf\xe9";
  write_model(m, sum.folder / "latin1.onnx");
  const auto outcome =
      run_attune({"run", sum.path("latin1.onnx"), "--inputs", sum.path("in.npz"), "--profile", sum.path("trace.json")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(nlohmann::json::accept(test::read_file(sum.folder / "trace.json")));
}

TEST(Run, RecordedRun) {
  const TemporaryFolder folder;
  const fs::path family = test::sample("marian/optimum_sdpa_op17");
  NamedTensors inputs, expected;
  for (auto& [name, tensor] : read_npz(family / "io_encoder_model_1.npz")) {
    if (name.starts_with("in_")) inputs.emplace(name.substr(3), tensor);
    if (name.starts_with("out_")) expected.emplace(name.substr(4), tensor);
  }
  write_npz(folder / "in.npz", inputs);
  const auto outcome = run_attune({"run", (family / "encoder_model.onnx").string(), "--inputs",
                                   (folder / "in.npz").string(), "--output", (folder / "out.npz").string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const NamedTensors found = read_npz(folder / "out.npz");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const auto x = tensor.to_double(), y = found.at(name).to_double();
    ASSERT_EQ(x.size(), y.size());
    double largest = 0, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(x[i]));
      difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    EXPECT_LT(difference, 1e-4 * largest) << name;
  }
}

}  // namespace
}  // namespace attune
