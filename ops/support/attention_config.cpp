#include "ops/support/attention_config.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace attune {
namespace {

[[noreturn]] void fail(std::string_view attribute, std::string_view expected, std::string_view got) {
  throw Error(Error::Kind::kInvalidModel, fmt::format("attribute '{}': expected {}, got {}", attribute, expected, got));
}

template <class Enum>
Enum choose(const Node& node, std::string_view attribute, std::span<const std::pair<std::string_view, Enum>> choices) {
  const std::string text = node.attr_string(attribute, choices.front().first);
  std::string names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(attribute, "one of " + names, "'" + text + "'");
}

bool flag(const Node& node, std::string_view attribute) {
  const int64_t value = node.attr_int(attribute, 0);
  if (value != 0 && value != 1) fail(attribute, "0 or 1", std::to_string(value));
  return value == 1;
}

int64_t at_least(const Node& node, std::string_view attribute, int64_t fallback, int64_t least) {
  const int64_t value = node.attr_int(attribute, fallback);
  if (node.has(attribute) && value < least) fail(attribute, fmt::format("at least {}", least), std::to_string(value));
  return value;
}

constexpr std::pair<std::string_view, AttentionScore> kScores[] = {{"scaled_dot", AttentionScore::kScaledDot},
                                                                   {"dot", AttentionScore::kDot},
                                                                   {"general", AttentionScore::kGeneral},
                                                                   {"additive", AttentionScore::kAdditive}};
constexpr std::pair<std::string_view, AttentionAlignment> kAlignments[] = {
    {"soft", AttentionAlignment::kSoft},
    {"hard", AttentionAlignment::kHard},
    {"monotonic", AttentionAlignment::kMonotonic}};
constexpr std::pair<std::string_view, AttentionWeights> kWeights[] = {{"normalized", AttentionWeights::kNormalized},
                                                                      {"raw", AttentionWeights::kRaw},
                                                                      {"capped", AttentionWeights::kCapped},
                                                                      {"biased", AttentionWeights::kBiased},
                                                                      {"head_mean", AttentionWeights::kHeadMean}};
constexpr std::pair<std::string_view, bool> kEmptyRows[] = {{"zero", false}, {"mean", true}};

}  // namespace

AttentionConfig read_attention_config(const Node& node) {
  AttentionConfig c;
  c.num_heads = at_least(node, "num_heads", 0, 1);
  c.num_kv_heads = at_least(node, "num_kv_heads", 0, 1);
  c.score = choose<AttentionScore>(node, "score", kScores);
  if (node.has("scale")) {
    if (c.score != AttentionScore::kScaledDot)
      fail("scale", "none beside score '" + node.attr_string("score", "") + "'", "one");
    c.scale = node.attr_float("scale", 1);
    if (!std::isfinite(*c.scale) || *c.scale < 0)
      fail("scale", "a finite number, not negative", fmt::format("{}", *c.scale));
  }
  c.softcap = node.attr_float("softcap", 0);
  if (!std::isfinite(c.softcap) || c.softcap < 0)
    fail("softcap", "a finite number, not negative", fmt::format("{}", c.softcap));
  c.causal = flag(node, "causal");
  const auto window = node.attr_ints("window", {-1, -1});
  if (window.size() != 2 || window[0] < -1 || window[1] < -1)
    fail("window", "two integers, each at least -1", fmt::format("[{}]", fmt::join(window, ", ")));
  c.window_left = window[0];
  c.window_right = window[1];
  c.alignment = choose<AttentionAlignment>(node, "alignment", kAlignments);
  c.sample = flag(node, "sample");
  c.seed = node.attr_int("seed", 0);
  c.chunk = at_least(node, "chunk", 1, 1);
  c.mean_of_empty_rows = choose<bool>(node, "empty_row", kEmptyRows);
  c.weights = choose<AttentionWeights>(node, "weights_output", kWeights);
  return c;
}

}  // namespace attune
