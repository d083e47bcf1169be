#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

using Words = std::vector<std::string>;

Tensor words(const Words& values) { return Tensor::from_strings({static_cast<int64_t>(values.size())}, values); }

TEST(StringConcat, Broadcasts) {
  const Tensor a = Tensor::from_strings({2, 1}, {"a", "b"}), b = words({"x", "", "ü"});
  const Tensor got = run({"StringConcat"}, {a, b});
  EXPECT_EQ(got.shape(), (Shape{2, 3}));
  EXPECT_EQ(got.strings(), (Words{"ax", "a", "aü", "bx", "b", "bü"}));
}

TEST(StringSplit, AsPythonsSplit) {
  struct Row {
    std::string text, delimiter;
    int64_t limit;
    Words want;
  };
  for (const Row& row : {Row{"a,b,,c", ",", -1, {"a", "b", "", "c"}}, Row{"a,b,c", ",", 1, {"a", "b,c"}},
                         Row{"  a  b c ", "", -1, {"a", "b", "c"}}, Row{" a  b c ", "", 1, {"a", "b c"}},
                         Row{"", ",", -1, {""}}, Row{"", "", -1, {}}, Row{"a--b", "--", -1, {"a", "b"}}}) {
    Attributes attributes = {{"delimiter", row.delimiter}};
    if (row.limit >= 0) attributes.insert({"maxsplit", row.limit});
    const auto got = run_all({"StringSplit", attributes, 20, 2}, {words({row.text})});
    EXPECT_EQ(got[0].tensor().strings(), row.want) << row.text;
    EXPECT_EQ(got[1].tensor().to_int64(), (Ints{static_cast<int64_t>(row.want.size())}));
  }
  const auto padded = run_all({"StringSplit", {}, 20, 2}, {words({"a", "b c"})});
  EXPECT_EQ(padded[0].tensor().strings(), (Words{"a", "", "b", "c"}));
  EXPECT_EQ(padded[1].tensor().to_int64(), (Ints{1, 2}));
}

TEST(StringNormalizer, CaseAndStopwords) {
  const Tensor days = words({"Monday", "tuesday", "Friday"});
  const auto normalize = [&](const std::string& action, bool sensitive, const Words& stops) {
    return run({"StringNormalizer",
                {{"case_change_action", action}, {"is_case_sensitive", int64_t{sensitive}}, {"stopwords", stops}}},
               {days})
        .strings();
  };
  EXPECT_EQ(normalize("LOWER", true, {"monday"}), (Words{"monday", "tuesday", "friday"}));
  EXPECT_EQ(normalize("UPPER", false, {"monday"}), (Words{"TUESDAY", "FRIDAY"}));
  EXPECT_EQ(normalize("NONE", true, {"Monday", "tuesday", "Friday"}), (Words{""}));
}

TEST(RegexFullMatch, MatchesWholeStrings) {
  const Call call{"RegexFullMatch", {{"pattern", std::string("[a-z]+@[a-z]+\\.com")}}};
  EXPECT_EQ(difference(run(call, {words({"a@b.com", "a@b.com.", "a@b"})}), bools({3}, {1, 0, 0})), "");
  EXPECT_THAT(failure({"RegexFullMatch", {{"pattern", std::string("(")}}}, {words({"a"})}),
              ::testing::HasSubstr("pattern '('"));
  EXPECT_NE(failure(call, {ints({1})}), "");
}

// RE2's documented syntax, and time that is linear in the text whatever the pattern.
TEST(RegexFullMatch, IsThatOfRe2) {
  const auto match = [](const std::string& pattern, const std::string& text) {
    return run({"RegexFullMatch", {{"pattern", pattern}}}, {words({text})}).to_double()[0] != 0;
  };
  EXPECT_FALSE(match("(a|aa)+$", std::string(1 << 20, 'a') + "b"));
  EXPECT_TRUE(match("(a|aa)+$", std::string(1 << 20, 'a')));
  EXPECT_TRUE(match("(?i)STRASSE \\p{Lu}.", "strasse \u00c4\u00f6"));
  EXPECT_TRUE(match("\\Aa(?P<rest>[[:digit:]]+)\\z", "a12"));
  for (const char* pattern : {"(a)\\1", "a(?=b)", "a{2000}"})
    EXPECT_NE(failure({"RegexFullMatch", {{"pattern", std::string(pattern)}}}, {words({"a"})}), "") << pattern;
}

}  // namespace
}  // namespace attune::testing
