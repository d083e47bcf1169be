// Models of tokenizer.json: words to ids. WordLevel, WordPiece, BPE, Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attune {

using Vocabulary = std::unordered_map<std::string, int64_t>;

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  virtual void encode(const std::string& word, std::vector<int64_t>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

std::unique_ptr<SubwordModel> make_subword_model(const nlohmann::json& description);
std::unique_ptr<SubwordModel> make_bpe(const nlohmann::json& description);
std::unique_ptr<SubwordModel> make_unigram(const nlohmann::json& description);

// "<0xE2>", the name of a byte in models that fall back to bytes.
std::string byte_token(unsigned char byte);

}  // namespace attune
