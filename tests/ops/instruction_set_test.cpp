#include "tests/support/instruction_set.h"

#include <gtest/gtest.h>

#include "ops/support/panel_weights.h"

namespace attune {
namespace {

class InstructionSet : public ::testing::Environment {
 public:
  InstructionSet() : wanted_(test::wanted_instruction_set()) {}
  void SetUp() override { test::limit_instruction_set(); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
  bool wanted() const { return wanted_ != 0; }

 private:
  int64_t wanted_;
};

const auto* const kInstructionSet =
    static_cast<InstructionSet*>(::testing::AddGlobalTestEnvironment(new InstructionSet));

TEST(InstructionSet, IsTheOneAskedFor) {
  if (!kInstructionSet->wanted()) GTEST_SKIP() << "no ATTUNE_TEST_ISA, or not on this machine";
  EXPECT_EQ(PanelWeights::instruction_set(), std::string_view(std::getenv("ATTUNE_TEST_ISA")));
}

}  // namespace
}  // namespace attune
