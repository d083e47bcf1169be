// Whole models against what ONNX Runtime computed.
#include <gtest/gtest.h>

#include "graph/io/reader.h"
#include "tests/support/model_files.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

class RecordedModel : public testing::TestWithParam<fs::path> {};

TEST_P(RecordedModel, GivesRecordedOutputs) {
  const fs::path model = test::recorded_models() / GetParam();
  const auto cases = test::recorded_files(model);
  ASSERT_FALSE(cases.empty());
  Session session(Plan::compile(read_model(model)));
  // Twice: the second run finds cached values of other shapes, and of the same.
  for (int round = 0; round < 2; ++round)
    for (const auto& file : cases) {
      SCOPED_TRACE(file.filename().string());
      const auto recorded = test::read_recorded(file);
      const TensorMap outputs = session.run(recorded.inputs);
      for (const auto& [name, expected] : recorded.outputs) {
        ASSERT_TRUE(outputs.contains(name)) << name;
        EXPECT_LE(test::relative_difference(outputs.at(name).tensor(), expected), test::tolerance(model)) << name;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedModel, testing::ValuesIn(test::model_files(test::recorded_models())),
                         [](const auto& info) {
                           return test::test_name(fs::path(info.param).replace_extension().string());
                         });

}  // namespace
}  // namespace attune
