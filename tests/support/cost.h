// How much memory and time the attune program takes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace attune::test {

// The processor's seconds of a process, in which waiting for other processes isn't counted.
inline double seconds_of(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Cost {
  size_t peak;  // the most memory that was resident, in bytes
  double seconds;
};

// Runs the program.
inline Cost cost_of(const std::vector<std::string>& arguments) {
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
  return {static_cast<size_t>(usage.ru_maxrss) * 1024, seconds_of(usage)};
}

}  // namespace attune::test
