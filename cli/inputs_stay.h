// That no command replaces what it reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace attune::cli {

// What a command reads: files, models with the files that hold their weights, and folders of models with their
// configuration and tokenizer. Empty paths are none.
class InputFiles {
 public:
  explicit InputFiles(std::vector<std::filesystem::path> inputs) : inputs_(std::move(inputs)) {}

  // Throws Error(kInvalidArgument) where `output`, which `option` names, is one of them; may be empty.
  void check_replaced_by(std::string_view option, const std::filesystem::path& output);

 private:
  struct File {
    std::filesystem::path path, input;
  };

  const std::vector<File>& files();
  void add(const std::filesystem::path& path, const std::filesystem::path& input);
  void add_folder(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> inputs_;
  std::optional<std::vector<File>> files_;  // listed when an output is there already: models are read for it
};

}  // namespace attune::cli
