// What the program does where the system refuses it threads or files of a size: an error, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace attune {
namespace {

class Limits : public testing::Test {
 protected:
  test::Outcome convert_after(const std::string& shell) const {
    const auto source = test::sample("marian/optimum_sdpa_op17/encoder_model.onnx");
    return test::run_attune({"convert", source, "-o", folder_ / "fused.onnx", "--threads", "4"}, {}, shell);
  }
  test::TemporaryFolder folder_;
};

TEST_F(Limits, SizesOfFiles) {
  test::expect_error(convert_after("ulimit -f 16; "), "File too large");
  EXPECT_EQ(folder_.entries(), 0U);
}

// Stacks larger than the address space: pthread_create(3) gives EAGAIN, as where there are too many threads.
TEST_F(Limits, NoThread) {
  test::expect_error(convert_after("ulimit -s 1099511627776; "), "can't start a thread");
  EXPECT_EQ(folder_.entries(), 0U);
}

TEST_F(Limits, NoThreadForKernels) {
  const test::Outcome outcome = convert_after("OMP_STACKSIZE=200000G ");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("Thread creation failed"));
  EXPECT_EQ(folder_.entries(), 0U);
}

}  // namespace
}  // namespace attune
