// Model files that tests run over, and the names of these tests.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace attune::test {

inline std::filesystem::path recorded_models() { return std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models"; }

// The folder that ATTUNE_ZOO names, or that of the models here.
inline std::filesystem::path zoo() {
  const char* folder = std::getenv("ATTUNE_ZOO");
  return folder && *folder ? std::filesystem::path(folder) : recorded_models();
}

// All model files below `root`, relative to it, by name.
inline std::vector<std::filesystem::path> model_files(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".onnx") files.push_back(std::filesystem::relative(entry.path(), root));
  std::sort(files.begin(), files.end());
  return files;
}

// As GoogleTest wants them: letters, digits and underscores.
inline std::string test_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

}  // namespace attune::test
