// Decoders of tokenizer.json: tokens to text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attune {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Tokens to pieces of text; the text is their concatenation.
  virtual std::vector<std::string> run(std::vector<std::string> tokens) const = 0;
};

std::unique_ptr<TokenDecoder> make_token_decoder(const nlohmann::json& description);  // null for JSON null

}  // namespace attune
