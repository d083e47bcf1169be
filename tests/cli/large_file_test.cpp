// A model whose weights lie in a file of more than 4 GB (with holes, so that it takes little of the disk): it is
// mapped, and memory is only what is touched.
#include <gtest/gtest.h>

#include "graph/io/npy.h"
#include "graph/io/onnx_protos.h"
#include "tests/support/cost.h"
#include "tests/support/program.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 1024, kMatrices = 32;
constexpr size_t kMatrixBytes = kWidth * kWidth * sizeof(float);

// y = table[ids] W_1 ... W_32: the table (rows, 1024) and the matrices (1024, 1024) follow each other in w.bin.
std::string model_bytes(int64_t rows) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("large");
  uint64_t offset = 0;
  const auto weight = [&](const std::string& name, int64_t height) {
    auto& t = *graph.add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_dims(height);
    t.add_dims(kWidth);
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", std::string("w.bin")), {"offset", std::to_string(offset)}}) {
      auto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    offset += static_cast<uint64_t>(height * kWidth) * sizeof(float);
  };
  const auto node = [&](const char* type, const std::string& a, const std::string& b, const std::string& out) {
    auto& n = *graph.add_node();
    n.set_op_type(type);
    n.add_input(a);
    n.add_input(b);
    n.add_output(out);
  };
  const auto port = [](onnx::ValueInfoProto& value, const char* name, int type) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_param("n");
  };
  port(*graph.add_input(), "ids", onnx::TensorProto::INT64);
  port(*graph.add_output(), "y", onnx::TensorProto::FLOAT);
  graph.mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(kWidth);
  weight("table", rows);
  node("Gather", "table", "ids", "x0");
  for (int64_t i = 0; i < kMatrices; ++i) {
    const std::string w = "w" + std::to_string(i), x = "x" + std::to_string(i);
    weight(w, kWidth);
    node("MatMul", x, w, i + 1 == kMatrices ? "y" : "x" + std::to_string(i + 1));
  }
  return model.SerializeAsString();
}

// The last row of the table is 1, 2, 3 ...; matrix i is the unit matrix, but for element (0, 0), which is (i + 2) / (i
// + 1).
void write_weights(const fs::path& file, int64_t rows) {
  std::ofstream out(file, std::ios::binary);
  const auto put = [&](int64_t element, float value) {
    out.seekp(element * static_cast<int64_t>(sizeof value));
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (int64_t i = 0; i < kWidth; ++i) put((rows - 1) * kWidth + i, static_cast<float>(i + 1));
  for (int64_t m = 0; m < kMatrices; ++m)
    for (int64_t i = 0; i < kWidth; ++i)
      put((rows + m * kWidth + i) * kWidth + i, i == 0 ? 1 + 1 / static_cast<float>(m + 1) : 1);
  out.close();
  fs::resize_file(file, static_cast<uintmax_t>(rows + kMatrices * kWidth) * kWidth * sizeof(float));
}

struct Result {
  std::vector<double> y;
  size_t peak;
};

Result run(int64_t rows, int64_t id) {
  const test::TemporaryFolder folder;
  folder.write("m.onnx", model_bytes(rows));
  write_weights(folder / "w.bin", rows);
  write_npz(folder / "in.npz", {{"ids", Tensor::from<int64_t>({1}, {id})}});
  const size_t peak = test::cost_of({"run", folder / "m.onnx", "--inputs", folder / "in.npz", "--output",
                                     folder / "out.npz", "--threads", "1"})
                          .peak;
  return {read_npz(folder / "out.npz").at("y").to_double(), peak};
}

TEST(LargeFile, OnlyWhatIsTouchedIsResident) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  constexpr int64_t kRows = 1'200'000;  // 4.9 GB
  const Result large = run(kRows, kRows - 1);
  std::vector<double> expected;
  for (int64_t i = 0; i < kWidth; ++i) expected.push_back(static_cast<double>(i + 1));
  expected[0] = kMatrices + 1;  // 2/1 * 3/2 * ... * 33/32
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(large.y.at(i), expected[i], 1e-5 * expected[i]) << i;

  const size_t program = test::cost_of({"--help"}).peak;
  constexpr size_t kTouched = kMatrices * kMatrixBytes;
  EXPECT_LT(large.peak, program + kTouched + kTouched / 10) << "the program alone: " << program;
}

}  // namespace
}  // namespace attune
