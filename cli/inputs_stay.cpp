#include "cli/inputs_stay.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "graph/error.h"
#include "graph/io/reader.h"
#include "runtime/folder.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// What folders of models hold beside them; other files may be replaced there.
constexpr std::array<std::string_view, 12> kConfigurations = {
    "config.json",    "generation_config.json", "preprocessor_config.json", "processor_config.json",
    "tokenizer.json", "tokenizer_config.json",  "special_tokens_map.json",  "added_tokens.json",
    "vocab.json",     "target_vocab.json",      "normalizer.json",          "shortlist.npz"};

}  // namespace

const std::vector<InputFiles::File>& InputFiles::files() {
  if (files_) return *files_;
  files_.emplace();
  for (const fs::path& input : inputs_) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      add_folder(input);
    } else if (!input.empty()) {
      add(input, input);
    }
  }
  return *files_;
}

// Also a file that can't be read as a model: what is wrong with it is said where it is used.
void InputFiles::add(const fs::path& path, const fs::path& input) {
  files_->push_back({path, input});
  if (path.extension() != ".onnx") return;
  std::set<fs::path> external;
  ReadOptions options;
  options.external_files = &external;
  try {
    read_model(path, options);
  } catch (const Error&) {
    return;
  }
  for (const fs::path& weights : external) files_->push_back({weights, input});
}

void InputFiles::add_folder(const fs::path& folder) {
  for (const std::string_view name : kConfigurations)
    files_->push_back({configuration_file(folder, std::string(name)), folder});
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".onnx") add(entry.path(), folder);
}

void InputFiles::check_replaced_by(std::string_view option, const fs::path& output) {
  std::error_code ignored;
  if (output.empty() || !fs::is_regular_file(output, ignored)) return;
  for (const File& file : files())
    if (fs::equivalent(file.path, output, ignored))
      throw Error(Error::Kind::kInvalidArgument, fmt::format("{} {}: expected a file of its own, this one is read: {}",
                                                             option, output.string(), file.input.string()));
}

}  // namespace attune::cli
