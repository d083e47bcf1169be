// What a program that is stopped leaves behind: nothing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

bool empty(const fs::path& folder) { return fs::directory_iterator(folder) == fs::directory_iterator(); }

class StopSignals : public testing::TestWithParam<int> {};

// The status of a conversion that gets the signal when it has begun to write into `folder`.
int stopped(int signal, const fs::path& folder) {
  const std::string program = std::string(ATTUNE_BINARY_DIR) + "/attune", output = folder / "fused",
                    source = std::string(ATTUNE_SOURCE_DIR) + "/tests/models/marian/optimum_sdpa_op17";
  const pid_t child = fork();
  if (child == 0) {
    std::signal(signal, SIG_DFL);  // whatever started this ignores
    execl(program.c_str(), "attune", "convert", source.c_str(), "-o", output.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 60000 && empty(folder); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(empty(folder));
  kill(child, signal);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_P(StopSignals, ConversionsLeaveNothingBehind) {
  // On a busy machine the program may be done before it gets the signal.
  for (int attempt = 0; attempt < 10; ++attempt) {
    const test::TemporaryFolder folder;
    const int status = stopped(GetParam(), folder.path());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), GetParam());
    EXPECT_TRUE(empty(folder.path()));
    return;
  }
  ADD_FAILURE() << "never stopped";
}

INSTANTIATE_TEST_SUITE_P(Each, StopSignals, testing::Values(SIGINT, SIGTERM, SIGHUP));

}  // namespace
}  // namespace attune
