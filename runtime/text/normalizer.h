// Normalisers of tokenizer.json: text to text, before it is cut into words.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include "runtime/text/word.h"

namespace attune {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual Word run(Word text) const = 0;
};

// From its JSON description; null for JSON null. Throws Error(kUnsupported) for an unknown type.
std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& description);

}  // namespace attune
