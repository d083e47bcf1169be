// Conversions of real exporters' models to each target are verified: there are made-up inputs that the source takes,
// and the result agrees. The models are those of tests/models, or of the folder that ATTUNE_ZOO names.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "tests/support/model_files.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

class VerifiedZoo : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(VerifiedZoo, ForEachTarget) {
  for (const Target target : {Target::kAttune, Target::kPortable, Target::kOnnx}) {
    SCOPED_TRACE(static_cast<int>(target));
    const test::TemporaryFolder folder;
    ConvertOptions options;
    options.target = target;
    const Conversion c = convert(test::zoo() / GetParam(), folder / "converted.onnx", options);
    EXPECT_TRUE(c.written);
    EXPECT_GE(c.models.at(0).verification->compared, 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(, VerifiedZoo, testing::ValuesIn(test::model_files(test::zoo())),
                         [](const auto& info) { return test::test_name(info.param.string()); });

}  // namespace
}  // namespace attune
