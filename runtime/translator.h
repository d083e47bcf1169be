// Text in, text out: a generator with the tokenizers of its folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/generator.h"
#include "runtime/picture/alignment.h"
#include "runtime/text/tokenizer.h"

namespace attune {

struct Translation {
  std::string text;             // without prompt and end of sequence
  std::vector<int64_t> source;  // tokens of the source
  Generation generation;
};

class Translator {
 public:
  // Throws as Generator::load, and Error(kInvalidArgument) if the folder has no tokenizer.
  static Translator load(const std::filesystem::path& folder, const GeneratorOptions& options = {});

  // num_return_sequences translations for each text, in order.
  std::vector<std::vector<Translation>> translate(const std::vector<std::string>& texts,
                                                  const GenerationOptions& options);
  // The best translation of one text, as the folder's configuration has it.
  std::string translate(const std::string& text);

  // Which source tokens each token of a translation attended to: the mean, then each head if the generator was loaded
  // with each_head. The translation must have been made with output_alignments.
  AlignmentPicture alignment(const Translation& translation) const;

  const GenerationOptions& defaults() const { return generator_.defaults(); }
  const Tokenizers& tokenizers() const { return tokenizers_; }
  Generator& generator() { return generator_; }

 private:
  Translator(Generator generator, Tokenizers tokenizers)
      : generator_(std::move(generator)), tokenizers_(std::move(tokenizers)) {}
  Generator generator_;
  Tokenizers tokenizers_;
};

// A token as people read it, or its id if there is no tokenizer.
std::string piece_of(const std::shared_ptr<const Tokenizer>& tokenizer, int64_t id);

// Rows: the new tokens; columns: the tokens of the source. Without tokenizers (null) the ids are shown.
AlignmentPicture alignment_picture(const Generation& generation, const std::vector<int64_t>& source,
                                   const Tokenizers& tokenizers);

}  // namespace attune
