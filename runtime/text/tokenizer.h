// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// Immutable; safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of UTF-8 text, with the special tokens that a model's input has (an end of sentence, language codes ...), as
  // the tokenizer's file says. Bytes that aren't UTF-8 are read as U+FFFD.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  // Text of ids. Special tokens are left out.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  // One token as people read it (a leading space is kept as such), for pictures. Unknown ids: "<ID>".
  virtual std::string piece(int64_t id) const = 0;
};

// SentencePiece models (.spm, .model). `vocabulary` is an optional vocab.json {piece: id} (Marian): ids are then its
// ids, and unknown pieces "<unk>"; without it, SentencePiece's own. encode() ends with `end_id`, if that isn't
// negative. Throws Error(kIo) or Error(kInvalidModel) that names the file.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file,
                                              const std::filesystem::path& vocabulary, int64_t end_id);
// Hugging Face's tokenizer.json. Throws as above; Error(kUnsupported) for a component that isn't known.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& file);

struct Tokenizers {
  std::shared_ptr<const Tokenizer> source;  // null: the folder has none
  std::shared_ptr<const Tokenizer> target;  // often the same
};
// Finds the tokenizer files of a model's folder: tokenizer.json; source.spm and target.spm, with vocab.json; or one
// *.spm, spiece.model or sentencepiece.bpe.model (M2M100: src_lang of tokenizer_config.json goes in front). `end_id`:
// end of sequence, for SentencePiece files.
Tokenizers find_tokenizers(const std::filesystem::path& folder, int64_t end_id);

}  // namespace attune
