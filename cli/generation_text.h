// Texts into a model's inputs, generations into texts.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/generator.h"
#include "runtime/text/tokenizer.h"

namespace attune::cli {

// The tokenizers of `folder`. Throws Error(kInvalidArgument) if it has none.
Tokenizers require_tokenizers(const std::filesystem::path& folder, const GenerationOptions& options);

// The text of a generation, without prompt and end of sequence.
std::string text_of(const Generation& generation, const Tokenizer& tokenizer);

}  // namespace attune::cli
