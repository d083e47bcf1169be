// Text of tokens that come one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/text/tokenizer.h"

namespace attune {

// Gives text as soon as no later token can change it: half characters wait for their other half.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // The text that is settled by this token; often empty.
  std::string push(int64_t token);
  // What is left, when no token follows. All pieces together are the tokenizer's decode() of all tokens. Begins anew.
  std::string finish();

 private:
  std::string rest(const std::string& text);

  const Tokenizer& tokenizer_;
  std::vector<int64_t> tokens_;
  std::string given_;
};

}  // namespace attune
