// The streaming example: Morse code from a pipe becomes text.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/program.h"

namespace attune {
namespace {

std::string decode(const std::string& code) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "code") << code;
  const std::string command = test::quoted(std::string(ATTUNE_BINARY_DIR) + "/examples/attune_stream") + " " +
                              test::quoted(std::string(ATTUNE_SOURCE_DIR) + "/examples/stream") + " <" +
                              test::quoted(folder / "code") + " >" + test::quoted(folder / "text");
  EXPECT_EQ(std::system(command.c_str()), 0);
  return test::read_file(folder / "text");
}

TEST(StreamExample, SpellsLetters) {
  EXPECT_EQ(decode("... --- ... / .- - - ..- -. ."), "SOS ATTUNE\n");
  EXPECT_EQ(decode(".---- ..--- ...-- / ----- "), "123 0\n");
  EXPECT_EQ(decode(" .-..-.. " + std::string(100, '-') + " .-"), "??A\n");
  EXPECT_EQ(decode(""), "\n");
}

TEST(StreamExample, ReadsManyPieces) {
  std::string code, text;
  for (int i = 0; i < 2000; ++i) code += "-.-. --- -.. . / ", text += "CODE ";
  EXPECT_EQ(decode(code), text + "\n");
}

}  // namespace
}  // namespace attune
