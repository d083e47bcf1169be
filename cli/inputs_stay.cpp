#include "cli/inputs_stay.h"

#include <fmt/format.h>

#include <algorithm>
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

bool same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// Also of a file that can't be read as a model: what is wrong with it is said where it is used.
bool holds_weights_of(const fs::path& file, const fs::path& model) {
  std::set<fs::path> external;
  ReadOptions options;
  options.external_files = &external;
  try {
    read_model(model, options);
  } catch (const Error&) {
    return false;
  }
  return std::any_of(external.begin(), external.end(), [&](const fs::path& e) { return same(file, e); });
}

bool belongs_to_folder(const fs::path& file, const fs::path& folder) {
  for (const std::string_view name : kConfigurations)
    if (same(file, configuration_file(folder, std::string(name)))) return true;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const bool model = entry.path().extension() == ".onnx";
    if (model && (same(file, entry.path()) || holds_weights_of(file, entry.path()))) return true;
  }
  return false;
}

bool belongs_to(const fs::path& file, const fs::path& input) {
  std::error_code ignored;
  if (fs::is_directory(input, ignored)) return belongs_to_folder(file, input);
  return same(file, input) || (input.extension() == ".onnx" && holds_weights_of(file, input));
}

}  // namespace

void check_replaces_none(std::string_view option, const fs::path& output, const std::vector<fs::path>& inputs) {
  std::error_code ignored;
  if (output.empty() || !fs::is_regular_file(output, ignored)) return;
  for (const fs::path& input : inputs)
    if (!input.empty() && belongs_to(output, input))
      throw Error(Error::Kind::kInvalidArgument, fmt::format("{} {}: expected a file of its own, this one is read: {}",
                                                             option, output.string(), input.string()));
}

}  // namespace attune::cli
