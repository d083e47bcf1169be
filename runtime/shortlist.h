// Lexical shortlists: which tokens an output may have, given the tokens of its source. A decoder then scores those
// alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune {

// shortlist.npz of a model's folder holds arrays of integers:
//   always   (n)                      tokens that every output may have
//   offsets  (source vocabulary + 1)  ascending from 0; the tokens that source token s allows are
//   tokens   (m)                      tokens[offsets[s]] up to, but not with, tokens[offsets[s + 1]]
class Shortlist {
 public:
  // The shortlist of a folder; nothing if it has none. Throws Error(kIo), or Error(kInvalidArgument) for arrays that
  // aren't such.
  static std::optional<Shortlist> load(const std::filesystem::path& folder);

  // The tokens allowed for a source, ascending, each once. Source tokens beyond the vocabulary allow none.
  std::vector<int64_t> allowed(std::span<const int64_t> source) const;

 private:
  std::vector<int64_t> always_, offsets_, tokens_;
};

// The form of a decoder that scores some tokens only.
struct ShortenedLogits {
  std::string input;      // int64 (n): the tokens to score
  size_t vocabulary = 0;  // of the decoder as it was
};

// Makes output `logits` of `decoder`, where it is a product with a matrix (and sums with vectors), give the columns of
// the tokens that a new last input names. Nothing, and the graph as it was, where it isn't.
std::optional<ShortenedLogits> shorten_logits(Graph& decoder, size_t logits);

}  // namespace attune
