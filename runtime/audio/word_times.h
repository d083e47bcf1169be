// When words are spoken, from the weights of cross-attention. Internal to the transcriber.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generator.h"
#include "runtime/text/tokenizer.h"

namespace attune {

// A path through the matrix of costs (rows x columns, row major) from its first to its last element that goes right,
// down or both at each step, with the least sum (dynamic time warping). Gives the column at which each row begins.
std::vector<int64_t> warp_in_time(std::span<const double> costs, size_t rows, size_t columns);

// The median of `width` (odd) neighbours of each value; ends are mirrored. Too short for that: as it was.
std::vector<float> median_filtered(std::span<const float> values, size_t width);

// For each new token of `generation` (which has the weights of each head) the position of the source at which it ends:
// as transformers' _extract_token_timestamps, from the given (layer, head) pairs and the first `positions` of the
// source.
std::vector<int64_t> token_positions(const Generation& generation, std::span<const std::pair<int64_t, int64_t>> heads,
                                     size_t positions, size_t median_filter_width);

struct TokenGroup {
  std::string text;
  size_t begin = 0, end = 0;  // tokens
};
// Tokens of text as words with the punctuation that belongs to them; `spaced`: the language puts blanks between words,
// else each character is one.
std::vector<TokenGroup> group_words(std::span<const int64_t> tokens, const Tokenizer& tokenizer, bool spaced);

}  // namespace attune
