// Texts into a model's inputs, generations into texts and pictures.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/generator.h"
#include "runtime/picture/alignment.h"
#include "runtime/text/tokenizer.h"

namespace attune::cli {

// The tokenizers of `folder`. Throws Error(kInvalidArgument) if it has none.
Tokenizers require_tokenizers(const std::filesystem::path& folder, const GenerationOptions& options);

// The text of a generation, without prompt and end of sequence.
std::string text_of(const Generation& generation, const Tokenizer& tokenizer);

// A token as people read it, or its id if there is no tokenizer.
std::string piece_of(const std::shared_ptr<const Tokenizer>& tokenizer, int64_t id);

// Rows: the new tokens; columns: the tokens of the source. Without tokenizers (null) the ids are shown.
AlignmentPicture picture_of(const Generation& generation, const std::vector<int64_t>& source,
                            const Tokenizers& tokenizers);

}  // namespace attune::cli
