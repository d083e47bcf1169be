#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace attune {
namespace {

using test::expect_error;
using test::run_attune;

TEST(Program, Help) {
  const auto help = run_attune({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("inspect"), std::string::npos);
  EXPECT_EQ(run_attune({"run", "--help"}).code, 0);
  EXPECT_EQ(run_attune({"--version"}).code, 0);
  EXPECT_EQ(run_attune({"help"}).out, help.out);
  EXPECT_EQ(run_attune({"help", "run"}).out, run_attune({"run", "--help"}).out);
  expect_error(run_attune({"help", "nonsense"}), "nonsense");
}

TEST(Program, WrongArguments) {
  expect_error(run_attune({}), "expected a command");
  expect_error(run_attune({"nonsense"}), "nonsense");
  expect_error(run_attune({"inspect"}), "MODEL is required");
  expect_error(run_attune({"inspect", "a", "--nonsense"}), "--nonsense");
  expect_error(run_attune({"run", "a", "--threads", "-1"}), "--threads");
  expect_error(run_attune({"convert", "a", "-o", "b", "--threads", "1025"}), "--threads");
}

TEST(Program, FilesThatAreNoModels) {
  const test::TemporaryFolder folder;
  for (const char* command : {"inspect", "run"}) {
    expect_error(run_attune({command, (folder / "missing.onnx").string()}),
                 "missing.onnx: can't open it: No such file");
    expect_error(run_attune({command, folder.write("empty.onnx", "").string()}), "empty.onnx: it is empty");
    expect_error(run_attune({command, folder.write("text.onnx", "Hello\nWorld").string()}), "not a valid ONNX file");
    const std::string model = test::read_file(test::sample("gru_bahdanau/torchscript_op14/encoder.onnx"));
    expect_error(run_attune({command, folder.write("cut.onnx", model.substr(0, model.size() / 2)).string()}),
                 "cut.onnx");
  }
  expect_error(run_attune({"run", folder.path().string()}), "directory");
}

TEST(Program, AFullDisk) {
  expect_error(run_attune({"--help"}, "/dev/full"), "can't write to standard output");
  expect_error(
      run_attune({"inspect", test::sample("gru_bahdanau/torchscript_op14/encoder.onnx").string()}, "/dev/full"),
      "can't write to standard output");
}

int exit_code(const std::string& arguments) {
  const int status = std::system((test::quoted(std::string(ATTUNE_BINARY_DIR) + "/attune") + " " + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Program, ClosedStreams) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(exit_code("run " + test::quoted(folder / "missing.onnx") + " 2>&-"), 2);
  EXPECT_EQ(exit_code("--help >&- 2>&-"), 2);
  // The file that is written mustn't get the place of standard output, and with it what is printed.
  const auto model = test::quoted(test::sample("gru_bahdanau/torchscript_op14/encoder.onnx"));
  const auto report = folder / "report.json";
  EXPECT_EQ(exit_code("convert " + model + " -o " + test::quoted(folder / "out.onnx") + " --report " +
                      test::quoted(report) + " >&- 2>&-"),
            2);
  EXPECT_TRUE(nlohmann::json::accept(test::read_file(report)));
  EXPECT_EQ(exit_code("inspect " + model + " >&- 2>&-"), 2);
}

}  // namespace
}  // namespace attune
