// Runs the attune program.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace attune::test {

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline std::string quoted(const std::string& argument) {
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// `redirection` replaces standard output's file ("/dev/full"). `before`: what the shell does before.
inline Outcome run_attune(const std::vector<std::string>& arguments, const std::string& redirection = {},
                          const std::string& before = "") {
  const TemporaryFolder folder;
  std::string command = before + quoted(std::string(ATTUNE_BINARY_DIR) + "/attune");
  for (const std::string& a : arguments) command += " " + quoted(a);
  command += " >" + quoted(redirection.empty() ? (folder / "out").string() : redirection) + " 2>" +
             quoted((folder / "err").string());
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (redirection.empty()) outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

// Errors are one line on standard error that names the program, and the exit code is 2.
inline void expect_error(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.err.starts_with("attune: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
}

inline std::filesystem::path sample(const std::string& name) {
  return std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models" / name;
}

}  // namespace attune::test
