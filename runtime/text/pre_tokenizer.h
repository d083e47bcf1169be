// Pre-tokenizers of tokenizer.json: text to words, which the model cuts further.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/text/word.h"

namespace attune {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts each word.
  virtual std::vector<Word> run(std::vector<Word> words) const = 0;
};

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& description);  // null for JSON null

}  // namespace attune
