#include "runtime/picture/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/picture/text_width.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using testing::HasSubstr;

AlignmentPicture sample() {
  return {"the black cat",
          {"the", "black", "cat"},
          {"le", "chat", "noir"},
          {{"mean", {1, 0, 0, 0, 0.25F, 0.75F, 0, 0.984F, 0.016F}}}};
}

TEST(TextWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(text_width("garçon"), 6U);
  EXPECT_EQ(text_width("日本"), 4U);
  EXPECT_EQ(text_width("e\xcc\x81"), 1U);  // e with a combining acute
  EXPECT_EQ(text_width("\xff\xfe"), 2U);
  EXPECT_EQ(pad_left("é", 3), "  é");
}

TEST(AlignmentText, ShowsPercentUnderInputTokens) {
  EXPECT_EQ(alignment_text(sample(), 0, false, 80),
            "        le chat noir\n"
            "  the  100    ·    ·\n"
            "black    ·   25   75\n"
            "  cat    ·   98    2\n");
}

TEST(AlignmentText, NumbersColumnsThatDoNotFit) {
  const std::string text = alignment_text(sample(), 0, false, 18);
  EXPECT_THAT(text, HasSubstr("1 le  2 chat  3 noir"));
  EXPECT_THAT(text, HasSubstr("   1   2   3\n"));
}

TEST(AlignmentSvg, HasACellForEachWeightAndEscapesTokens) {
  AlignmentPicture p = sample();
  p.columns[0] = "<&>";
  const std::string svg = alignment_svg(p, 0);
  size_t cells = 0;
  for (size_t at = 0; (at = svg.find("</title></rect>", at)) != std::string::npos; ++at) ++cells;
  EXPECT_EQ(cells, 9U);
  EXPECT_THAT(svg, HasSubstr("&lt;&amp;&gt;"));
  EXPECT_THAT(svg, HasSubstr("black → noir: 0.750"));
  EXPECT_THAT(svg, HasSubstr("#08306b"));  // weight 1
}

TEST(AlignmentJson, KeepsTheNumbersAndBrokenCharacters) {
  AlignmentPicture p = sample();
  p.rows[0] = "\xe6\x97";  // two of three bytes of a character
  const auto j = nlohmann::json::parse(alignment_json(p));
  EXPECT_EQ(j["heads"][0]["weights"][1][2], 0.75);
  EXPECT_EQ(j["columns"], (std::vector<std::string>{"le", "chat", "noir"}));
}

TEST(AlignmentHtml, ATokenCannotEndTheScript) {
  AlignmentPicture p = sample();
  p.rows[1] = "</script>";
  EXPECT_THAT(alignment_html(p), HasSubstr("\"\\u003c/script>\""));
}

TEST(WriteAlignment, GoesByTheExtensionAndLeavesNothingHalf) {
  const test::TemporaryFolder folder;
  write_alignment(sample(), folder / "a.svg");
  std::ifstream in(folder / "a.svg");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), alignment_svg(sample(), 0));
  EXPECT_THROW(write_alignment(sample(), folder / "a.bmp"), Error);
  EXPECT_THROW(write_alignment(sample(), folder / "none" / "a.svg"), Error);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(Alignment, RefusesASizeThatDoesNotFit) {
  AlignmentPicture p = sample();
  p.rows.pop_back();
  EXPECT_THROW(alignment_svg(p, 0), Error);
  p = sample();
  p.heads.clear();
  EXPECT_THROW(alignment_text(p, 0, false, 80), Error);
}

TEST(Alignment, AnEmptySourceIsAnEmptyPicture) {
  const AlignmentPicture p{"", {"a"}, {}, {{"mean", {}}}};
  EXPECT_THAT(alignment_svg(p, 0), HasSubstr("</svg>"));
  EXPECT_EQ(nlohmann::json::parse(alignment_json(p))["heads"][0]["weights"][0].size(), 0U);
}

}  // namespace
}  // namespace attune
