// All operator tests again with less than the machine's best instruction set: ATTUNE_TEST_ISA=AVX2 or SSE4.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdlib>
#include <string_view>

#include "ops/support/panel_weights.h"

namespace attune {
namespace {

int64_t wanted_target() {
  const char* name = std::getenv("ATTUNE_TEST_ISA");
  if (!name) return 0;
  return std::string_view(name) == "AVX2" ? HWY_AVX2 : std::string_view(name) == "SSE4" ? HWY_SSE4 : 0;
}

class InstructionSet : public ::testing::Environment {
 public:
  void SetUp() override {
    if (wanted_target() & hwy::SupportedTargets()) hwy::SetSupportedTargetsForTest(wanted_target());
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

const ::testing::Environment* const kInstructionSet = ::testing::AddGlobalTestEnvironment(new InstructionSet);

TEST(InstructionSet, IsTheOneAskedFor) {
  if (!(wanted_target() & hwy::SupportedTargets())) GTEST_SKIP() << "no ATTUNE_TEST_ISA, or not on this machine";
  EXPECT_EQ(PanelWeights::instruction_set(), std::string_view(std::getenv("ATTUNE_TEST_ISA")));
  EXPECT_NE(kInstructionSet, nullptr);
}

}  // namespace
}  // namespace attune
