#include "ops/support/einsum_equation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "graph/error.h"

namespace attune {
namespace {

constexpr int kEllipsis = 0;

// Letters, with kEllipsis for "...".
std::vector<int> parse_term(std::string_view term, std::string_view equation) {
  std::vector<int> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (std::isalpha(static_cast<unsigned char>(c))) {
      labels.push_back(c);
    } else if (term.substr(i, 3) == "...") {
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      throw Error(Error::Kind::kInvalidModel, fmt::format("equation '{}': unexpected '{}'", equation, c));
    }
  }
  if (std::count(labels.begin(), labels.end(), kEllipsis) > 1)
    throw Error(Error::Kind::kInvalidModel, fmt::format("equation '{}': two ellipses in one term", equation));
  return labels;
}

// Labels with the ellipsis replaced by `axes` numbered axes.
std::vector<int> expand(const std::vector<int>& term, size_t axes) {
  std::vector<int> labels;
  for (const int label : term) {
    if (label != kEllipsis) {
      labels.push_back(label);
      continue;
    }
    for (size_t i = axes; i > 0; --i) labels.push_back(-static_cast<int>(i));
  }
  return labels;
}

}  // namespace

EinsumEquation EinsumEquation::resolve(std::string_view equation, const std::vector<size_t>& ranks) {
  const size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  std::vector<std::vector<int>> terms;
  for (size_t comma = 0; comma != std::string_view::npos;
       left.remove_prefix(comma == std::string_view::npos ? left.size() : comma + 1)) {
    comma = left.find(',');
    terms.push_back(parse_term(left.substr(0, comma), equation));
  }
  if (terms.size() != ranks.size())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("equation '{}' has {} terms for {} inputs", equation, terms.size(), ranks.size()));
  EinsumEquation e;
  size_t widest = 0;
  std::map<int, int> uses;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool ellipsis = std::find(terms[i].begin(), terms[i].end(), kEllipsis) != terms[i].end();
    const size_t named = terms[i].size() - (ellipsis ? 1 : 0);
    if (ranks[i] < named || (!ellipsis && ranks[i] != named))
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("input {}: rank {} does not fit equation '{}'", i, ranks[i], equation));
    const size_t axes = ranks[i] - named;
    if (ellipsis) widest = std::max(widest, axes);
    e.operands.push_back(expand(terms[i], axes));
    for (const int label : terms[i]) ++uses[label];
  }
  if (arrow != std::string_view::npos) {
    e.result = expand(parse_term(equation.substr(arrow + 2), equation), widest);
    for (const int label : e.result) {
      if (label < 0) continue;
      if (!uses.contains(label))
        throw Error(Error::Kind::kInvalidModel,
                    fmt::format("equation '{}': '{}' is in no input", equation, static_cast<char>(label)));
      if (std::count(e.result.begin(), e.result.end(), label) > 1)
        throw Error(Error::Kind::kInvalidModel,
                    fmt::format("equation '{}': '{}' is twice in the result", equation, static_cast<char>(label)));
    }
  } else {
    // Implicit form: the ellipsis, then the letters used once in alphabetical order.
    e.result = expand({kEllipsis}, widest);
    for (const auto& [label, count] : uses)
      if (label != kEllipsis && count == 1) e.result.push_back(label);
  }
  return e;
}

}  // namespace attune
