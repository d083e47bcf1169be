#include "graph/io/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

TEST(OutputFile, APipeIsWrittenTo) {
  const test::TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file(pipe, "text");
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(OutputFile, OfALinkTheFileIsReplaced) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "file", "old");
  std::filesystem::create_symlink("file", folder.path() / "link");
  write_file(folder.path() / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(contents(folder.path() / "file"), "new");
}

TEST(OutputFile, WithoutCommitNothingIsLeft) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "file", "old");
  {
    OutputFile unfinished(folder.path() / "file");
    unfinished.write("new");
  }
  EXPECT_EQ(contents(folder.path() / "file"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, WhetherAPipeCanBeWrittenIsAskedWithoutOpeningIt) {
  const test::TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  check_writable(pipe);  // with nobody reading, to open it would wait
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  check_writable(pipe);
  pollfd waiting{reader, POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "the reader sees a writer that came and went: the end";
  ::close(reader);
}

}  // namespace
}  // namespace attune
