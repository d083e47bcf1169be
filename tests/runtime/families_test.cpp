// Further families of models, and the rules of generation, against transformers (data/make_families.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_generation.h"

namespace attune {
namespace {

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, GiveHuggingFacesTokensAndScoresUnderAllRules) {
  const auto folder = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data/families" / GetParam();
  const auto outcome = test::run_recorded_generation(folder, folder);
  EXPECT_GE(outcome.runs, 30U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Names, Families, testing::Values("pegasus", "speech2text", "pix2struct", "moonshine"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attune
