#include "runtime/audio/word_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"

namespace attune {
namespace {

// Punctuation that goes with the word behind or before it, and that is a word of its own otherwise.
constexpr std::string_view kOpening = "\"'“¡¿([{-", kClosing = "\"'.。,，!！?？:：”)]}、";
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool within_text(std::string_view part, std::string_view whole) { return whole.find(part) != std::string_view::npos; }

// Each column of (rows, columns) to mean 0 and deviation 1. One row alone has nothing to compare with: zeros.
void normalize_columns(std::vector<float>& weights, size_t rows, size_t columns) {
  for (size_t c = 0; c < columns; ++c) {
    double mean = 0, square = 0;
    for (size_t r = 0; r < rows; ++r) mean += static_cast<double>(weights[r * columns + c]);
    mean /= static_cast<double>(rows);
    for (size_t r = 0; r < rows; ++r) {
      const double d = static_cast<double>(weights[r * columns + c]) - mean;
      square += d * d;
    }
    const double deviation = std::sqrt(square / static_cast<double>(rows));
    for (size_t r = 0; r < rows; ++r) {
      float& w = weights[r * columns + c];
      w = deviation > 0 ? static_cast<float>((static_cast<double>(w) - mean) / deviation) : 0.0F;
    }
  }
}

// Tokens that together are whole characters.
std::vector<TokenGroup> group_characters(std::span<const int64_t> tokens, const Tokenizer& tokenizer) {
  const std::string all = tokenizer.decode(tokens);
  std::vector<TokenGroup> out;
  size_t begin = 0, offset = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string text = tokenizer.decode(tokens.subspan(begin, i + 1 - begin));
    const size_t broken = text.find(kReplacement);
    // U+FFFD may stand in the text itself.
    const bool whole =
        broken == std::string::npos ||
        (offset + broken < all.size() && std::string_view(all).substr(offset + broken).starts_with(kReplacement));
    if (!whole) continue;
    offset += text.size();
    out.push_back({std::move(text), begin, i + 1});
    begin = i + 1;
  }
  return out;
}

void merge_opening(std::vector<TokenGroup>& words) {
  for (size_t j = words.size(); j-- > 1;) {
    const std::string_view text = words[j - 1].text;
    if (!text.starts_with(' ') || !within_text(stripped(text), kOpening)) continue;
    words[j - 1].text += words[j].text;
    words[j - 1].end = words[j].end;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(j));
  }
}

void merge_closing(std::vector<TokenGroup>& words) {
  for (size_t j = 1; j < words.size();) {
    if (words[j - 1].text.ends_with(' ') || !within_text(words[j].text, kClosing)) {
      ++j;
      continue;
    }
    words[j - 1].text += words[j].text;
    words[j - 1].end = words[j].end;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(j));
  }
}

}  // namespace

std::vector<int64_t> warp_in_time(std::span<const double> costs, size_t rows, size_t columns) {
  enum Step : uint8_t { kBoth, kDown, kRight };
  const size_t width = columns + 1;
  std::vector<float> total((rows + 1) * width, std::numeric_limits<float>::infinity());
  std::vector<uint8_t> steps((rows + 1) * width, kRight);
  total[0] = 0;
  for (size_t r = 1; r <= rows; ++r) {
    steps[r * width] = kDown;
    for (size_t c = 1; c <= columns; ++c) {
      const float both = total[(r - 1) * width + c - 1], down = total[(r - 1) * width + c],
                  right = total[r * width + c - 1];
      uint8_t step = kRight;
      float before = right;
      if (both < down && both < right) {
        step = kBoth;
        before = both;
      } else if (down < both && down < right) {
        step = kDown;
        before = down;
      }
      total[r * width + c] = static_cast<float>(costs[(r - 1) * columns + c - 1] + static_cast<double>(before));
      steps[r * width + c] = step;
    }
  }
  std::vector<int64_t> begins(rows, 0);
  for (size_t r = rows, c = columns; r > 0 || c > 0;) {
    if (r > 0) begins[r - 1] = static_cast<int64_t>(c) - 1;
    const uint8_t step = steps[r * width + c];
    if (step != kRight) --r;
    if (step != kDown) --c;
  }
  for (int64_t& b : begins) b = std::max<int64_t>(b, 0);
  return begins;
}

std::vector<float> median_filtered(std::span<const float> values, size_t width) {
  const size_t half = width / 2, size = values.size();
  std::vector<float> out(values.begin(), values.end());
  if (size <= half) return out;
  std::vector<float> window(width);
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < width; ++k) {
      auto at = static_cast<std::ptrdiff_t>(i + k) - static_cast<std::ptrdiff_t>(half);
      if (at < 0) at = -at;
      if (at >= static_cast<std::ptrdiff_t>(size)) at = 2 * (static_cast<std::ptrdiff_t>(size) - 1) - at;
      window[k] = values[static_cast<size_t>(at)];
    }
    std::nth_element(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(half), window.end());
    out[i] = window[half];
  }
  return out;
}

std::vector<int64_t> token_positions(const Generation& g, std::span<const std::pair<int64_t, int64_t>> heads,
                                     size_t positions, size_t median_filter_width) {
  // The step that follows a token has it as query; the last token has none.
  const size_t tokens = g.tokens.size() - g.prompt_length;
  if (tokens < 2) return std::vector<int64_t>(tokens, 0);
  const size_t rows = tokens - 1;
  std::vector<double> costs;
  for (const auto& [layer, head] : heads) {
    const auto found = std::find_if(g.heads.begin(), g.heads.end(), [&](const HeadAlignment& h) {
      return static_cast<int64_t>(h.layer) == layer && static_cast<int64_t>(h.head) == head;
    });
    if (found == g.heads.end())
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("alignment_heads: the decoder gives no weights of layer {}, head {}", layer, head));
    const size_t columns = std::min(positions, found->weights.at(0).size());
    std::vector<float> weights;
    for (size_t r = 0; r < rows; ++r) {
      const auto& row = found->weights.at(r + 1);
      weights.insert(weights.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(columns));
    }
    normalize_columns(weights, rows, columns);
    costs.resize(weights.size(), 0);
    for (size_t r = 0; r < rows; ++r) {
      const auto row = median_filtered(std::span(weights).subspan(r * columns, columns), median_filter_width);
      for (size_t c = 0; c < columns; ++c)
        costs[r * columns + c] -= static_cast<double>(row[c]) / static_cast<double>(heads.size());
    }
  }
  if (costs.empty()) return std::vector<int64_t>(tokens, 0);
  auto out = warp_in_time(costs, rows, costs.size() / rows);
  out.push_back(out.back());
  return out;
}

std::vector<TokenGroup> group_words(std::span<const int64_t> tokens, const Tokenizer& tokenizer, bool spaced) {
  std::vector<TokenGroup> words = group_characters(tokens, tokenizer);
  if (spaced) {
    std::vector<TokenGroup> joined;
    for (TokenGroup& part : words) {
      const bool begins =
          joined.empty() || part.text.starts_with(' ') || within_text(stripped(part.text), kPunctuation);
      if (begins) {
        joined.push_back(std::move(part));
      } else {
        joined.back().text += part.text;
        joined.back().end = part.end;
      }
    }
    words = std::move(joined);
  }
  merge_opening(words);
  merge_closing(words);
  return words;
}

}  // namespace attune
