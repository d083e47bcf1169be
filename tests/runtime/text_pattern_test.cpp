// Regular expressions and cuts by them. Expected is what tokenizers 0.22 gives: its normalizer Replace, and its
// pre-tokenizers Split and Whitespace.
#include "runtime/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/text/pre_tokenizer.h"

namespace attune {
namespace {

using Texts = std::vector<std::string>;

Texts texts(const std::vector<Word>& words) {
  Texts out;
  for (const Word& w : words) out.push_back(w.text);
  return out;
}

TEST(Regex, MatchesWhatTheOriginalDoes) {
  struct Case {
    std::string pattern, text, replaced;
  };
  for (const Case& c : std::vector<Case>{
           {R"(\w)", "a\u00b2 \u00bd\u2167\u24d0_\u0663e\u0301\u200d\u200c\u203f-", "## #######\u200d\u200c#-"},
           {R"(\W)", "a\u00b2 \u00bd\u2167\u24d0_\u0663e\u0301\u200d\u200c\u203f-",
            "a\u00b2#\u00bd\u2167\u24d0_\u0663e\u0301##\u203f#"},
           {"[[:word:]]", "a\u00b2 \u00bd\u2167\u24d0_\u0663e\u0301\u200d\u200c\u203f-",
            "#\u00b2 \u00bd######\u200d\u200c#-"},
           {R"(\b)", "a\u00b2 \u200db", "#a\u00b2# \u200d#b#"},
           {R"(\d)", "1\u0663\u00b2\u00bd\u2167", "##\u00b2\u00bd\u2167"},
           {".", "a\nb\rc\vd\fe\302\205f\u2028g", "#\n###########"},
           {".*", "a\n\u2028b", "#\n#"},
           {"(?m:.)", "a\nb\rc\vd\fe\302\205f\u2028g", "#############"},
           {R"(\N)", "a\nb", "#\n#"},
           {R"(\O)", "a\nb", "###"},
           {"$", "a\nb\n", "a#\nb#\n#"},
           {"^", "a\nb\n", "#a\n#b\n"},
           {R"(a\Z)", "a\na\n", "a\n#\n"},
           {R"(\h)", "f g\t1", "# g\t#"},
           {R"(\H)", "f g1", "f##1"},
           {R"(\s)", "a\nb\rc\vd\fe\302\205f\u2028g \u00a0\u200b\u3000", "a#b#c#d#e#f#g##\u200b#"},
           {R"(\R)", "a\r\nb\nc\u2028d", "a#b#c#d"},
           {R"(\X)", "e\u0301x", "##"},
           {"(?i)stra\u00dfe", "STRASSE stra\u00dfe", "# #"},
           {R"((?<=\p{L})(?=\p{N}))", "ab12", "ab#12"},
           {"x*", "axxb", "#a#b#"},
           {"x*", "\u00e9xx\u4e2d", "#\u00e9#\u4e2d#"},
           {"ab|(?=x)", "ab-x", "#-#x"},
           {R"(a\Kb)", "abab", "a#a#"},
           {R"((?=ab\K))", "abab", "#ab#ab"},
           {R"((?<n>a|b\g<n>))", "bba", "#"},
           {"(?~b)", "aab", "#b#"},
           {"[a-z&&[^aeiou]]+", "abcde", "a#e"},
           {"a{1,2}+b", "aaab", "#"},
           {"", "ab", "#a#b#"},
           {"", "", ""},
       })
    EXPECT_EQ(replace(c.text, Regex(c.pattern).find_all(c.text), "#"), c.replaced) << c.pattern << " in " << c.text;
}

TEST(Regex, WhatIsNoneAndWhatWouldTakeForeverAreErrors) {
  for (const char* pattern : {"[", "(a", "(?s).", R"(\p{Klingon})", R"(\g<none>)"}) {
    EXPECT_THAT([&] { Regex{pattern}; }, testing::ThrowsMessage<Error>(testing::HasSubstr(pattern))) << pattern;
  }
  const Regex slow("(x+x+)+y");
  EXPECT_THAT([&] { slow.find_all(std::string(40, 'x')); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("retry-limit")));
  EXPECT_EQ(slow.find_all("xxxy"), (Matches{{0, 4}}));
  // Few retries from each of many starts.
  std::string words;
  for (int i = 0; i < 40000; ++i) words += "aaaaaaaaaaaa ";
  EXPECT_THAT([&] { Regex("(a+a+)+[xy]").find_all(words + "x"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("retry-limit")));
}

// A look-behind may put the beginning of a match before the end of the one before.
TEST(Regex, MatchesDontOverlap) {
  for (const char* pattern : {R"((?<=\Ka)b|a)", R"((?=ab\K))", R"((?<=\K)a)"}) {
    size_t last = 0;
    for (const auto& [begin, end] : Regex(pattern).find_all("ababaab")) {
      EXPECT_LE(last, begin) << pattern;
      EXPECT_LE(begin, end) << pattern;
      last = end;
    }
  }
}

TEST(Split, CutsAsTheOriginalDoes) {
  struct Case {
    std::string pattern;
    SplitBehavior behavior;
    bool invert;
    std::string text;
    Texts parts;
  };
  for (const Case& c : std::vector<Case>{
           {"$", SplitBehavior::kContiguous, false, "a\nb", {"a", "\nb"}},
           {"$", SplitBehavior::kMergedWithPrevious, false, "a\nb", {"a", "\nb"}},
           {"$", SplitBehavior::kMergedWithNext, false, "a\nb", {"a", "\nb"}},
           {R"(\b)", SplitBehavior::kContiguous, false, "a b", {"a", " ", "b"}},
           {R"(\b)", SplitBehavior::kIsolated, false, "a b", {"a", " ", "b"}},
           {R"(\b)", SplitBehavior::kRemoved, true, "a b", {}},
           {R"(\b)", SplitBehavior::kMergedWithNext, true, "a b", {"a", " ", "b"}},
           {"(?=b)|a", SplitBehavior::kMergedWithPrevious, false, "caabb", {"ca", "a", "b", "b"}},
           {"(?=b)|a", SplitBehavior::kContiguous, false, "caabb", {"c", "aa", "b", "b"}},
           {"(?=b)|a", SplitBehavior::kContiguous, true, "caabb", {"c", "aa", "b", "b"}},
           {R"(\w+|[^\w\s]+)",
            SplitBehavior::kIsolated,
            false,
            "x\u00b2 \u200dy!",
            {"x\u00b2", " ", "\u200d", "y", "!"}},
           {R"(\w+|[^\w\s]+)", SplitBehavior::kRemoved, true, "x\u00b2 \u200dy!", {"x\u00b2", "\u200d", "y", "!"}},
       })
    EXPECT_EQ(texts(split({c.text}, Regex(c.pattern).find_all(c.text), c.behavior, c.invert)), c.parts)
        << c.pattern << " in " << c.text;
}

TEST(Whitespace, CutsIntoWordsAndSigns) {
  const auto pre_tokenizer = make_pre_tokenizer({{"type", "Whitespace"}});
  for (const auto& [text, parts] : std::vector<std::pair<std::string, Texts>>{
           {"a\u00b2 \u00bd\u2167\u24d0_\u0663e\u0301\u200d\u200c\u203f-",
            {"a", "\u00b2", "\u00bd", "\u2167\u24d0_\u0663e\u0301\u200d\u200c\u203f", "-"}},
           {"ab1 c!?\u3002d", {"ab1", "c", "!?\u3002", "d"}},
           {"  a\u00a0b\t", {"a", "b"}},
           {"!", {"!"}},
           {"", {}},
           {"\u200b \u4e2d\u6587 x.y", {"\u200b", "\u4e2d\u6587", "x", ".", "y"}},
       })
    EXPECT_EQ(texts(pre_tokenizer->run({{text}})), parts) << text;
}

}  // namespace
}  // namespace attune
