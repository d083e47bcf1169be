// How much memory the attune program takes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <string>
#include <vector>

extern char** environ;

namespace attune::test {

// Runs the program and gives the most memory that it had resident, in bytes.
inline size_t peak_of(const std::vector<std::string>& arguments) {
  std::string program = std::string(ATTUNE_BINARY_DIR) + "/attune";
  std::vector<std::string> words = arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), &quiet, nullptr, argv.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  struct rusage usage {};
  ::wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace attune::test
