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
  test::expect_error(convert_after("ulimit -f 16 && "), "File too large");
  EXPECT_EQ(folder_.entries(), 0U);
}

// No limit does this to a superuser, and limits that would can't be had without rights: a library that refuses them.
TEST_F(Limits, NoThread) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer has its own pthread_create";
#endif
  test::expect_error(convert_after("LD_PRELOAD=" + test::quoted(ATTUNE_REFUSE_THREADS) + " "), "can't start a thread");
  EXPECT_EQ(folder_.entries(), 0U);
}

// Stacks larger than the address space, of the threads of libgomp: it ends the program itself.
TEST_F(Limits, NoThreadForKernels) {
  const test::Outcome outcome = convert_after("OMP_STACKSIZE=200000G ");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("Thread creation failed"));
  EXPECT_EQ(folder_.entries(), 0U);
}

}  // namespace
}  // namespace attune
