// Pieces of text, token by token, against the text of all tokens at once.
#include "runtime/text/text_stream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace attune {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models/tokenizers";

class Streams : public testing::TestWithParam<std::string> {};

TEST_P(Streams, PiecesAreTheWholeTextInTwelveScripts) {
  const auto json = kFixtures / (GetParam() + ".json");
  const auto tokenizer = std::filesystem::exists(json) ? load_tokenizer_json(json)
                                                       : load_sentencepiece(kFixtures / (GetParam() + ".spm"), {}, -1);
  TextStream stream(*tokenizer);
  std::ifstream in(kFixtures / "lines.txt");
  size_t number = 0, early = 0;
  for (std::string line; std::getline(in, line);) {
    if (number++ % 5 != 0) continue;
    const auto ids = tokenizer->encode(line);
    std::string text;
    for (const int64_t id : ids) text += stream.push(id);
    early += text.empty() ? 0 : 1;
    text += stream.finish();
    ASSERT_EQ(text, tokenizer->decode(ids)) << "line " << number << ": '" << line << "'";
  }
  EXPECT_GT(early, number / 10);  // not all of it comes at the end
}

INSTANTIATE_TEST_SUITE_P(Kinds, Streams,
                         testing::Values("bpe_byte_level", "wordpiece_bert", "unigram_t5", "bpe_words", "bpe_suffix",
                                         "bpe_byte_fallback", "word_level", "sentencepiece"),
                         [](const auto& info) { return info.param; });

// Letters of two bytes, in two tokens.
class Bytes : public Tokenizer {
 public:
  std::vector<int64_t> encode(std::string_view) const override { return {}; }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != 0xc3) {
        out += static_cast<char>(ids[i]);
      } else if (i + 1 == ids.size()) {
        out += "\xef\xbf\xbd";
      } else {
        out += {'\xc3', static_cast<char>(ids[++i])};
      }
    }
    return out;
  }
  std::string piece(int64_t) const override { return {}; }
};

TEST(TextStream, HalfCharactersWait) {
  const Bytes tokenizer;
  TextStream stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.push(0xa9), "\xc3\xa9");
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.push('b'), "b");
}

}  // namespace
}  // namespace attune
