#include "runtime/text/pattern.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace attune {

TextPattern::TextPattern(const nlohmann::json& j) {
  if (j.is_string()) {
    literal_ = j;
  } else if (j.contains("String")) {
    literal_ = j["String"];
  } else {
    regex_.emplace(j.at("Regex").get<std::string>());
  }
}

Matches TextPattern::find_all(std::string_view text) const {
  if (regex_) return regex_->find_all(text);
  Matches out;
  if (literal_.empty()) return out;
  for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos; at += literal_.size())
    out.emplace_back(at, at + literal_.size());
  return out;
}

std::string replace(std::string_view text, const Matches& matches, std::string_view with) {
  std::string out;
  size_t from = 0;
  for (const auto& [begin, end] : matches) {
    out += text.substr(from, begin - from);
    out += with;
    from = end;
  }
  out += text.substr(from);
  return out;
}

SplitBehavior split_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error(Error::Kind::kUnsupported, fmt::format("split behavior '{}'", name));
}

std::vector<Word> split(const Word& text, const Matches& matches, SplitBehavior behavior, bool invert) {
  struct Part {
    size_t begin, end;
    bool match;
  };
  std::vector<Part> parts;
  size_t from = 0;
  for (const auto& [begin, end] : matches) {
    if (begin > from) parts.push_back({from, begin, invert});
    parts.push_back({begin, end, !invert});
    from = end;
  }
  if (from < text.text.size()) parts.push_back({from, text.text.size(), invert});

  std::vector<Part> out;
  for (const Part& p : parts) {
    const bool has_last = !out.empty() && out.back().end == p.begin;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!p.match) out.push_back(p);
        break;
      case SplitBehavior::kIsolated:
        out.push_back(p);
        break;
      case SplitBehavior::kContiguous:
        if (has_last && out.back().match == p.match) {
          out.back().end = p.end;
        } else {
          out.push_back(p);
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (p.match && has_last && !out.back().match) {
          out.back() = {out.back().begin, p.end, true};
        } else {
          out.push_back(p);
        }
        break;
      case SplitBehavior::kMergedWithNext:
        if (has_last && out.back().match && !p.match) {
          out.back() = {out.back().begin, p.end, false};
        } else {
          out.push_back(p);
        }
        break;
    }
  }
  std::vector<Word> result;
  for (const Part& p : out)
    if (p.end > p.begin) result.push_back(text.part(p.begin, p.end));
  return result;
}

}  // namespace attune
