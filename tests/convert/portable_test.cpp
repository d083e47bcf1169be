// Files of target `portable`, read back: to generate from and to convert again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "tests/support/recorded_generation.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

const fs::path kModels = fs::path(ATTUNE_SOURCE_DIR) / "tests/models";

class Portable : public testing::TestWithParam<const char*> {
 protected:
  Portable() : family_(kModels / fs::path(GetParam()).parent_path()) {
    ConvertOptions options;
    options.target = Target::kPortable;
    options.verify = false;
    convert(kModels / GetParam(), folder_ / "portable", options);
  }
  TemporaryFolder folder_;
  fs::path family_;
};

TEST_P(Portable, GivesHuggingFacesTokens) {
  fs::copy(family_ / "generation_config.json", folder_ / "generation_config.json");
  const auto outcome = test::run_recorded_generation(family_, folder_ / "portable");
  EXPECT_GT(outcome.runs, 0U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

TEST_P(Portable, ConvertsAgain) {
  for (const Target target : {Target::kAttune, Target::kPortable, Target::kOnnx}) {
    ConvertOptions options;
    options.target = target;
    const auto again =
        convert(folder_ / "portable", folder_ / ("again" + std::to_string(static_cast<int>(target))), options);
    EXPECT_TRUE(again.written) << static_cast<int>(target);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Portable, testing::Values("marian/optimum_sdpa_op17", "marian/dynamo_sdpa_op23"),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

}  // namespace
}  // namespace attune
