// Folders for what tests write are new ones: one by a fixed name, or by a process's number, may be another run's or
// user's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace attune {
namespace {

namespace fs = std::filesystem;

// Whether `text` is of a file that asks where temporary files go, but doesn't make a new folder there.
bool takes_a_name(const std::string& text) {
  const auto has = [&](const char* word) { return text.find(std::string(word) + "(") != std::string::npos; };
  return (has("temp_directory_path") || has("TempDir")) && !has("mkdtemp");
}

TEST(TemporaryFolders, AreNew) {
  std::vector<std::string> wrong;
  for (const char* folder : {"tests", "examples", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      std::ifstream in(entry.path());
      if (takes_a_name({std::istreambuf_iterator<char>(in), {}})) wrong.push_back(entry.path());
    }
  }
  EXPECT_THAT(wrong, testing::IsEmpty()) << "they take test::TemporaryFolder";
}

TEST(TemporaryFolders, OnesByNameAreFound) {
  for (const std::string place : {"std::filesystem::temp_directory_path", "testing::TempDir"})
    EXPECT_TRUE(takes_a_name(place + "() / \"attune\"")) << place;
  EXPECT_FALSE(takes_a_name("test::TemporaryFolder folder;"));
}

}  // namespace
}  // namespace attune
