// Each condition of a rule has a case that it refuses: of every reason in a call of refuse() in the sources of passes,
// some case says that it is the one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/pass_cases.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

// Where the literal that begins at `at` ends: behind its closing quote.
size_t end_of_literal(std::string_view code, size_t at) {
  for (++at; code[at] != '"'; ++at)
    if (code[at] == '\\') ++at;
  return at + 1;
}

// The literals of a call's arguments but the first one, from behind its opening bracket on.
std::vector<std::string> literals_of_call(std::string_view code, size_t at) {
  std::vector<std::string> literals;
  bool first_argument = true;
  for (int depth = 1; depth > 0; ++at) {
    if (code[at] == '(' || code[at] == '{') ++depth;
    if (code[at] == ')' || code[at] == '}') --depth;
    if (code[at] == ',' && depth == 1) first_argument = false;
    if (code[at] != '"') continue;
    const size_t end = end_of_literal(code, at);
    if (!first_argument) literals.emplace_back(code.substr(at + 1, end - at - 2));
    at = end - 1;
  }
  return literals;
}

std::vector<std::string> reasons_in(const fs::path& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string code = std::regex_replace(text, std::regex("\"\\s*\n\\s*\""), "");  // adjacent literals are one
  std::vector<std::string> reasons;
  constexpr std::string_view kCall = "refuse(";
  for (size_t at = code.find(kCall); at != std::string::npos; at = code.find(kCall, at + 1))
    for (std::string& literal : literals_of_call(code, at + kCall.size()))
      if (literal.find(' ') != std::string::npos) reasons.push_back(std::move(literal));
  return reasons;
}

// Whether the text of `format` is in `line`, with anything in place of {}.
bool says(std::string_view line, std::string_view format) {
  while (!format.empty()) {
    const size_t placeholder = std::min(format.find('{'), format.size());
    const size_t found = line.find(format.substr(0, placeholder));
    if (found == std::string_view::npos) return false;
    line.remove_prefix(found + placeholder);
    format.remove_prefix(placeholder == format.size() ? placeholder : format.find('}') + 1);
  }
  return true;
}

TEST(Refusals, EachReasonHasACase) {
  std::vector<std::string> expected;
  for (const fs::path& file : test::case_files()) expected.push_back(test::read_case(file).no_match);
  size_t reasons = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "passes")) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& reason : reasons_in(entry.path())) {
      ++reasons;
      EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [&](const auto& line) { return says(line, reason); }))
          << entry.path().filename() << ": no case is refused because \"" << reason << '"';
    }
  }
  EXPECT_GT(reasons, 100U);
}

}  // namespace
}  // namespace attune
