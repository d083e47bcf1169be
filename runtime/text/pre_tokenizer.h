// Pre-tokenizers of tokenizer.json: text to words, which the model cuts further.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attune {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts each word. `at_start`: words[0] begins the text (not what follows an added token).
  virtual std::vector<std::string> run(std::vector<std::string> words, bool at_start) const = 0;
};

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& description);  // null for JSON null

}  // namespace attune
