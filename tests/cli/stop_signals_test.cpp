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

TEST_P(StopSignals, ConversionsLeaveNothingBehind) {
  const test::TemporaryFolder folder;
  const std::string program = std::string(ATTUNE_BINARY_DIR) + "/attune", output = folder.path() / "fused",
                    source = std::string(ATTUNE_SOURCE_DIR) + "/tests/models/marian/optimum_sdpa_op17";
  const pid_t child = fork();
  if (child == 0) {
    std::signal(GetParam(), SIG_DFL);  // whatever started this ignores
    execl(program.c_str(), "attune", "convert", source.c_str(), "-o", output.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 20000 && empty(folder.path()); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(empty(folder.path()));
  kill(child, GetParam());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_TRUE(empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Each, StopSignals, testing::Values(SIGINT, SIGTERM, SIGHUP));

}  // namespace
}  // namespace attune
