#include "runtime/translator.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "runtime/token_inputs.h"

namespace attune {

std::string piece_of(const std::shared_ptr<const Tokenizer>& tokenizer, int64_t id) {
  if (!tokenizer) return std::to_string(id);
  std::string text = tokenizer->piece(id);
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? std::string("\u2423") : text.substr(begin);
}

Translator Translator::load(const std::filesystem::path& folder, const GeneratorOptions& options) {
  const auto& eos = Generator::options_of(folder).eos_token_id;
  Tokenizers tokenizers = find_tokenizers(folder, eos.empty() ? -1 : eos.front());
  if (!tokenizers.source || !tokenizers.target)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: no tokenizer: expected tokenizer.json, source.spm or spiece.model", folder.string()));
  return {Generator::load(folder, options), std::move(tokenizers)};
}

std::vector<std::vector<Translation>> Translator::translate(const std::vector<std::string>& texts,
                                                            const GenerationOptions& options) {
  if (texts.empty()) return {};
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& t : texts) sources.push_back(tokenizers_.source->encode(t));
  auto generations = generator_.generate(padded_inputs(sources, options.pad_token_id.value_or(0)), options);
  std::vector<std::vector<Translation>> out(texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    for (Generation& g : generations[i]) {
      const size_t prompt = std::min(g.prompt_length, g.tokens.size());
      out[i].push_back({tokenizers_.target->decode(std::span(g.tokens).subspan(prompt)), sources[i], std::move(g)});
    }
  return out;
}

std::string Translator::translate(const std::string& text) {
  return translate(std::vector<std::string>{text}, defaults()).at(0).at(0).text;
}

AlignmentPicture Translator::alignment(const Translation& t) const {
  return alignment_picture(t.generation, t.source, tokenizers_);
}

AlignmentPicture alignment_picture(const Generation& g, const std::vector<int64_t>& source,
                                   const Tokenizers& tokenizers) {
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

}  // namespace attune
