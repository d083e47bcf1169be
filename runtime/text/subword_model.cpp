#include "runtime/text/subword_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "graph/error.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;

class WordLevel : public SubwordModel {
 public:
  explicit WordLevel(const json& j) {
    vocabulary_ = j.at("vocab").get<Vocabulary>();
    if (const auto it = vocabulary_.find(j.value("unk_token", "<unk>")); it != vocabulary_.end()) unknown_ = it->second;
  }
  void encode(const std::string& word, std::vector<int64_t>& ids) const override {
    if (const auto it = vocabulary_.find(word); it != vocabulary_.end()) {
      ids.push_back(it->second);
    } else if (unknown_) {
      ids.push_back(*unknown_);
    }
  }

 private:
  std::optional<int64_t> unknown_;
};

// Greedy longest match from the left; a word that can't be cut so is unknown as a whole.
class WordPiece : public SubwordModel {
 public:
  explicit WordPiece(const json& j)
      : prefix_(j.value("continuing_subword_prefix", "##")),
        longest_(j.value("max_input_chars_per_word", size_t{100})) {
    vocabulary_ = j.at("vocab").get<Vocabulary>();
    unknown_ = vocabulary_.at(j.value("unk_token", "[UNK]"));
  }
  void encode(const std::string& word, std::vector<int64_t>& ids) const override {
    const std::u32string characters = unicode::decode(word);
    const size_t before = ids.size();
    size_t begin = characters.size() > longest_ ? std::u32string::npos : 0;
    while (begin < characters.size()) {
      size_t end = characters.size();
      for (; end > begin; --end) {
        const std::string piece =
            (begin > 0 ? prefix_ : "") + unicode::encode(std::u32string_view(characters).substr(begin, end - begin));
        if (const auto it = vocabulary_.find(piece); it != vocabulary_.end()) {
          ids.push_back(it->second);
          break;
        }
      }
      if (end == begin) {
        begin = std::u32string::npos;
        break;
      }
      begin = end;
    }
    if (begin != std::u32string::npos) return;
    ids.resize(before);
    ids.push_back(unknown_);
  }

 private:
  std::string prefix_;
  size_t longest_;
  int64_t unknown_ = 0;
};

}  // namespace

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::unique_ptr<SubwordModel> make_subword_model(const json& j) {
  // Old files leave the type out.
  std::string type = j.value("type", "");
  if (type.empty())
    type = j.contains("merges")                      ? "BPE"
           : j.contains("unk_id")                    ? "Unigram"
           : j.contains("continuing_subword_prefix") ? "WordPiece"
                                                     : "WordLevel";
  if (type == "WordLevel") return std::make_unique<WordLevel>(j);
  if (type == "WordPiece") return std::make_unique<WordPiece>(j);
  if (type == "BPE") return make_bpe(j);
  if (type == "Unigram") return make_unigram(j);
  throw Error(Error::Kind::kUnsupported, fmt::format("tokenizer model '{}'", type));
}

}  // namespace attune
