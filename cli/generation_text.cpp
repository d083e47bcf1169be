#include "cli/generation_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace attune::cli {

std::string piece_of(const std::shared_ptr<const Tokenizer>& tokenizer, int64_t id) {
  if (!tokenizer) return std::to_string(id);
  std::string text = tokenizer->piece(id);
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? std::string("\u2423") : text.substr(begin);
}

Tokenizers require_tokenizers(const std::filesystem::path& folder, const GenerationOptions& options) {
  Tokenizers t = find_tokenizers(folder, options.eos_token_id.empty() ? -1 : options.eos_token_id.front());
  if (!t.source)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: no tokenizer for --text: expected tokenizer.json, source.spm or spiece.model",
                            folder.string()));
  return t;
}

std::string text_of(const Generation& g, const Tokenizer& tokenizer) {
  const size_t prompt = std::min(g.prompt_length, g.tokens.size());
  return tokenizer.decode(std::span(g.tokens).subspan(prompt));
}

AlignmentPicture picture_of(const Generation& g, const std::vector<int64_t>& source, const Tokenizers& tokenizers) {
  AlignmentPicture p;
  for (const int64_t id : source) p.columns.push_back(piece_of(tokenizers.source, id));
  for (size_t i = 0; i < g.alignment.size() && g.prompt_length + i < g.tokens.size(); ++i)
    p.rows.push_back(piece_of(tokenizers.target, g.tokens[g.prompt_length + i]));
  const auto add = [&](std::string name, const std::vector<std::vector<float>>& weights) {
    AlignmentHead head{std::move(name), {}};
    for (size_t r = 0; r < p.rows.size(); ++r)
      // What a batch padded beyond this source is of no interest.
      for (size_t c = 0; c < source.size(); ++c) head.weights.push_back(c < weights[r].size() ? weights[r][c] : 0.0F);
    p.heads.push_back(std::move(head));
  };
  add("mean", g.alignment);
  for (const HeadAlignment& h : g.heads) add(fmt::format("layer {}, head {}", h.layer, h.head), h.weights);
  return p;
}

}  // namespace attune::cli
