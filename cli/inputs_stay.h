// That no command replaces what it reads.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace attune::cli {

// Throws Error(kInvalidArgument) where `output`, which `option` names, is one of `inputs`: files, models with the files
// that hold their weights, and folders of models with their configuration and tokenizer. Empty paths are none.
void check_replaces_none(std::string_view option, const std::filesystem::path& output,
                         const std::vector<std::filesystem::path>& inputs);

}  // namespace attune::cli
