#include "cli/generation_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace attune::cli {

Tokenizers require_tokenizers(const std::filesystem::path& folder, const GenerationOptions& options) {
  Tokenizers t = find_tokenizers(folder, options.eos_token_id.empty() ? -1 : options.eos_token_id.front());
  if (!t.source)
    throw Error(
        Error::Kind::kInvalidArgument,
        fmt::format(
            "{}: text needs a tokenizer, and there is none: expected tokenizer.json, source.spm or spiece.model",
            folder.string()));
  return t;
}

std::string text_of(const Generation& g, const Tokenizer& tokenizer) {
  const size_t prompt = std::min(g.prompt_length, g.tokens.size());
  return tokenizer.decode(std::span(g.tokens).subspan(prompt));
}

}  // namespace attune::cli
