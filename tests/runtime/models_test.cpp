// Whole models against what ONNX Runtime computed.
#include <gtest/gtest.h>

#include "graph/io/reader.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> models() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "tests/models"))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name =
      fs::relative(info.param, fs::path(ATTUNE_SOURCE_DIR) / "tests/models").replace_extension().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class RecordedModel : public testing::TestWithParam<fs::path> {};

TEST_P(RecordedModel, GivesRecordedOutputs) {
  const auto cases = test::recorded_files(GetParam());
  ASSERT_FALSE(cases.empty());
  Session session(Plan::compile(read_model(GetParam())));
  // Twice: the second run finds cached values of other shapes, and of the same.
  for (int round = 0; round < 2; ++round)
    for (const auto& file : cases) {
      SCOPED_TRACE(file.filename().string());
      const auto recorded = test::read_recorded(file);
      const TensorMap outputs = session.run(recorded.inputs);
      for (const auto& [name, expected] : recorded.outputs) {
        ASSERT_TRUE(outputs.contains(name)) << name;
        EXPECT_LE(test::relative_difference(outputs.at(name).tensor(), expected), test::tolerance(GetParam())) << name;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedModel, testing::ValuesIn(models()), test_name);

}  // namespace
}  // namespace attune
