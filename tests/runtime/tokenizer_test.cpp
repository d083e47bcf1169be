#include "runtime/text/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "graph/error.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models/tokenizers";

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

// What the original library gave for each line (tests/models/tokenizers/make.py).
class AgainstTheOriginal : public testing::TestWithParam<std::string> {};

TEST_P(AgainstTheOriginal, IdsAndTextAreEqualInTwelveScripts) {
  const auto json = kFixtures / (GetParam() + ".json");
  const auto tokenizer = std::filesystem::exists(json) ? load_tokenizer_json(json)
                                                       : load_sentencepiece(kFixtures / (GetParam() + ".spm"), {}, -1);
  const auto lines = read_lines(kFixtures / "lines.txt"), expected = read_lines(kFixtures / (GetParam() + ".expected"));
  ASSERT_EQ(lines.size(), expected.size());
  ASSERT_GE(lines.size(), 1000U);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto ids = tokenizer->encode(lines[i]);
    std::string got;
    for (const int64_t id : ids) got += (got.empty() ? "" : " ") + std::to_string(id);
    ASSERT_EQ(got + "\t" + escape(tokenizer->decode(ids)), expected[i]) << "line " << i + 1 << ": '" << lines[i] << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AgainstTheOriginal,
                         testing::Values("bpe_byte_level", "wordpiece_bert", "unigram_t5", "bpe_words", "bpe_suffix",
                                         "bpe_byte_fallback", "word_level", "sentencepiece"),
                         [](const auto& info) { return info.param; });

TEST(SentencePiece, TakesIdsFromAVocabularyAndEndsWithTheEnd) {
  const test::TemporaryFolder folder;
  const auto plain = load_sentencepiece(kFixtures / "sentencepiece.spm", {}, 2);
  const auto ids = plain->encode("hello");
  EXPECT_EQ(ids.back(), 2);
  std::ofstream(folder / "vocab.json") << R"({"</s>": 0, "<unk>": 1, ")" + std::string("\u2581hello") + R"(": 7})";
  const auto mapped = load_sentencepiece(kFixtures / "sentencepiece.spm", folder / "vocab.json", 0);
  EXPECT_EQ(mapped->encode("hello"), (std::vector<int64_t>{7, 0}));
  EXPECT_EQ(mapped->decode(std::vector<int64_t>{7, 0}), "hello");
  EXPECT_EQ(mapped->piece(7), " hello");
  EXPECT_EQ(mapped->piece(99), "<99>");
}

// Ids as of transformers' M2M100Tokenizer with these files.
TEST(SentencePiece, SourcesOfM2m100BeginWithTheirLanguage) {
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(kFixtures / "sentencepiece.spm", folder / "sentencepiece.bpe.model");
  folder.write(
      "vocab.json",
      "{\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3, \"\u2581l\": 4, \"e\": 5, \"\u2581\": 6, \"c\": 7, "
      "\"h\": 8, \"a\": 9, \"t\": 10, \"n\": 11, \"o\": 12}");
  const auto ids = [&](const std::string& settings) {
    folder.write("tokenizer_config.json", R"({"tokenizer_class": "M2M100Tokenizer")" + settings + "}");
    return find_tokenizers(folder.path(), 2).source->encode("le chat noir");
  };
  EXPECT_EQ(ids(R"(, "src_lang": "fr")"), (std::vector<int64_t>{37, 4, 5, 6, 7, 8, 9, 10, 6, 11, 12, 3, 3, 2}));
  EXPECT_EQ(ids(R"(, "src_lang": null)").front(), 31);
  EXPECT_EQ(ids(R"(, "src_lang": "zu")").front(), 112);
  EXPECT_THROW(ids(R"(, "src_lang": "klingon")"), Error);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "M2M100Tokenizer", "src_lang": "fr"})");
  const auto tokenizer = find_tokenizers(folder.path(), 2).target;
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{31, 4, 5, 2}), "le");
  EXPECT_EQ(tokenizer->piece(31), "__en__");
}

// What tokenizers 0.22 gives.
TEST(TokenizerJson, CharactersOfRareCategories) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json") << R"({
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": false},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "added_tokens": [{"id": 3, "content": "XY", "single_word": true, "normalized": false, "special": false}],
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "aa": 2, "XY": 3}}})";
  const auto tokenizer = load_tokenizer_json(folder.path() / "tokenizer.json");
  const auto ids = [&](std::string_view text) { return tokenizer->encode(text); };
  using Ids = std::vector<int64_t>;
  for (const char* gone : {"\f", "\v", "\u0085", "\u00ad", "\ue000"})
    EXPECT_EQ(ids(std::string("a") + gone + "a"), Ids{2});
  for (const char* blank : {"\t", "\r", "\u2028", "\u3000"})
    EXPECT_EQ(ids(std::string("a") + blank + "a"), (Ids{1, 1}));
  EXPECT_EQ(ids("a \u0378 a"), (Ids{1, 0, 1}));  // not assigned
  for (const char* apart : {"\u20ac", "\u00bd", "\u0378"})
    EXPECT_EQ(ids(std::string("XY") + apart).front(), 3) << apart;
  for (const char* joined : {"\u24b6", "\u0301"}) EXPECT_EQ(ids(std::string("XY") + joined), Ids{0}) << joined;
}

TEST(TokenizerFiles, BadOnesAreErrorsThatNameTheFile) {
  const test::TemporaryFolder folder;
  for (const char* text :
       {"", "{", "[]", R"({"model": 3})", R"({"model": {"type": "BPE", "vocab": {}, "merges": ["a b"]}})",
        R"({"model": {"type": "Magic"}})",
        R"({"normalizer": {"type": "Magic"}, "model": {"type": "WordLevel", "vocab": {}}})"}) {
    std::ofstream(folder / "tokenizer.json") << text;
    try {
      find_tokenizers(folder.path(), -1);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("tokenizer.json"), std::string::npos) << e.what();
    }
  }
  std::ofstream(folder / "tokenizer.json")
      << R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": "1"}, "unk_token": "a"}})";
  EXPECT_THAT([&] { find_tokenizers(folder.path(), -1); },
              testing::ThrowsMessage<Error>(
                  testing::EndsWith("tokenizer.json: (/model/vocab/b) type must be number, but is string")));
  std::ofstream(folder / "tokenizer.json")
      << R"({"normalizer": {"type": 3}, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})";
  EXPECT_THAT([&] { find_tokenizers(folder.path(), -1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("(/normalizer/type)")));
  std::filesystem::remove(folder / "tokenizer.json");
  EXPECT_EQ(find_tokenizers(folder.path(), -1).source, nullptr);
  std::ofstream(folder / "source.spm") << "not a model";
  EXPECT_THROW(find_tokenizers(folder.path(), -1), Error);
}

TEST(TokenizerJson, AnAddedTokenThatNormalisesToNothingIsNowhere) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json")
      << R"({"normalizer": {"type": "Strip", "strip_left": true, "strip_right": true},
    "added_tokens": [{"id": 2, "content": " ", "normalized": true}],
    "model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"}})";
  EXPECT_EQ(load_tokenizer_json(folder.path() / "tokenizer.json")->encode("a"), std::vector<int64_t>{0});
}

// What tokenizers 0.22 gives with the same file, one a line: text, ids.
TEST(TokenizerJson, AddedTokensThatMustStandAlone) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json") << R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [
      {"id": 3, "content": "cat", "single_word": true}, {"id": 4, "content": "at"},
      {"id": 5, "content": "<l>", "lstrip": true, "rstrip": true}],
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "concat": 1, "x": 2}, "unk_token": "<unk>"}})";
  const auto tokenizer = load_tokenizer_json(folder.path() / "tokenizer.json");
  for (const auto& [text, ids] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"concat cat x", {1, 3, 2}},
           {"cat x", {3, 2}},
           {"concat", {1}},  // the longer one hides "at"
           {"cats at x", {0, 4, 2}},
           {"x-cat", {0, 3}},
           {"\u00e9cat cat", {0, 3}},
           {"catcat cat", {0, 3}},
           {"x <l> x", {2, 5, 2}},
           {"x\u00a0<l>\u2003x", {2, 5, 2}},
           {"x <l> <l>x", {2, 5, 5, 2}},
           {"cat <l>cat", {3, 5, 3}},
       })
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
}

// As tokenizers 0.22 does it: a blank is put before what doesn't begin with one, whatever else it begins with.
TEST(TokenizerJson, BytesBeginWithABlank) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"added_tokens": [{"id": 8, "content": "<m>"}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}, "model": {"type": "BPE", "unk_token": "<unk>",
    "merges": [], "vocab": {"<unk>": 0, "a": 1, "b": 2, "Ġ": 3, "ĉ": 4, "Ċ": 5, "Â": 6,
    "ł": 7}}})");
  const auto tokenizer = load_tokenizer_json(folder.path() / "tokenizer.json");
  for (const auto& [text, ids] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"ab", {3, 1, 2}},
           {" ab", {3, 1, 2}},
           {"\tab", {3, 4, 1, 2}},
           {"\nab", {3, 5, 1, 2}},
           {"\u00a0ab", {3, 6, 7, 1, 2}},
           {"a<m>\tb", {3, 1, 8, 3, 4, 2}},
           {"a<m> b", {3, 1, 8, 3, 2}},
           {"a<m>b", {3, 1, 8, 3, 2}},
       })
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
}

// What tokenizers 0.22 gives with the same file: a mark comes before what begins with the first character that was
// given, not before what is left when something in front of it went.
TEST(TokenizerJson, TheFirstMarkStandsBeforeTheFirstCharacterOnly) {
  const test::TemporaryFolder folder;
  const std::string blanks = R"({"type": "Strip", "strip_left": true, "strip_right": false})",
                    end = R"({"type": "Strip", "strip_left": false, "strip_right": true})",
                    words = R"({"type": "WhitespaceSplit"})",
                    cut = R"({"type": "CharDelimiterSplit", "delimiter": "a"})",
                    digits = R"({"type": "Digits", "individual_digits": true})",
                    before = R"({"type": "Prepend", "prepend": "a"})",
                    quotes = R"({"type": "Replace", "pattern": {"String": "''"}, "content": "b"})",
                    no_quotes = R"({"type": "Replace", "pattern": {"String": "'"}, "content": ""})",
                    as_quote = R"({"type": "Replace", "pattern": {"String": "'"}, "content": "b"})";
  const auto ids = [&](const std::string& normalizers, std::string pre_tokenizers, const std::string& text) {
    if (!pre_tokenizers.empty()) pre_tokenizers += ", ";
    folder.write("tokenizer.json", R"({"added_tokens": [{"id": 9, "content": "<m>"}],
      "normalizer": {"type": "Sequence", "normalizers": [)" +
                                       normalizers + R"(]},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" +
                                       pre_tokenizers + R"({"type": "Metaspace",
      "prepend_scheme": "first"}]}, "model": {"type": "BPE", "unk_token": "<unk>", "merges": [],
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "\u2581": 3, "1": 4, "2": 5, "\u2044": 6, "'": 7}}})");
    return load_tokenizer_json(folder.path() / "tokenizer.json")->encode(text);
  };
  struct Case {
    std::string normalizers, pre_tokenizers, text;
    std::vector<int64_t> ids;
  };
  for (const Case& c : std::vector<Case>{
           {"", "", "ab", {3, 1, 2}},
           {"", "", " ab", {3, 1, 2}},
           {"", "", "<m>a", {9, 1}},
           {"", "", "a<m>b", {3, 1, 9, 2}},
           {blanks, "", "ab", {3, 1, 2}},
           {blanks, "", " ab", {1, 2}},
           {end, "", "ab", {3, 1, 2}},
           {end, "", " ab ", {3, 1, 2}},
           {"", words, "ab a", {3, 1, 2, 1}},
           {"", words, " ab", {1, 2}},
           {"", cut, "ab", {2}},
           {"", cut, "ba", {3, 2}},
           {"", cut, " ab", {3, 2}},
           {quotes, "", "''a", {2, 1}},
           {quotes, "", "'a", {3, 7, 1}},
           {no_quotes, "", "'a", {1}},
           {no_quotes, "", "a'", {3, 1}},
           {as_quote, "", "'a", {3, 2, 1}},
           {before, "", "b", {3, 1, 2}},
           {before, "", " b", {3, 1, 3, 2}},
           {before, cut, "b", {3, 2}},
           {before, cut, " b", {3, 2}},
           {blanks + ", " + before, "", "b", {3, 1, 2}},
           {blanks + ", " + before, "", " b", {1, 2}},
           {R"({"type": "NFKD"})", digits, "\u00bda", {3, 4, 3, 6, 3, 5, 1}},
           {R"({"type": "StripAccents"})", "", "\u0301a", {1}},
           {R"({"type": "StripAccents"})", "", "a\u0301", {3, 1}},
       })
    EXPECT_EQ(ids(c.normalizers, c.pre_tokenizers, c.text), c.ids)
        << c.normalizers << "; " << c.pre_tokenizers << "; " << c.text;
}

// What tokenizers 0.22 decodes with the same file.
TEST(TokenizerJson, TheFirstTokenLosesItsMarksButNoBlanks) {
  const test::TemporaryFolder folder;
  const auto decoded = [&](const std::string& scheme, std::vector<int64_t> ids) {
    folder.write("tokenizer.json", R"({"decoder": {"type": "Metaspace", "prepend_scheme": ")" + scheme + R"("},
      "model": {"type": "WordLevel", "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "▁already▁meta": 1, " x": 2, "▁▁": 3}}})");
    return load_tokenizer_json(folder.path() / "tokenizer.json")->decode(ids);
  };
  for (const char* scheme : {"always", "first"}) {
    EXPECT_EQ(decoded(scheme, {1, 1}), "alreadymeta already meta");
    EXPECT_EQ(decoded(scheme, {2, 2}), " x x");
    EXPECT_EQ(decoded(scheme, {3, 1}), " already meta");
  }
  EXPECT_EQ(decoded("never", {1, 1}), " already meta already meta");
  EXPECT_EQ(decoded("never", {3, 1}), "   already meta");
}

// As tokenizers 0.22 does it: of tokens that are equal when they are normalised, special ones, then the first.
TEST(TokenizerJson, OfEqualAddedTokensSpecialOnesComeFirst) {
  const test::TemporaryFolder folder;
  const auto ids = [&](bool first_special, bool second_special) {
    folder.write("tokenizer.json",
                 fmt::format(R"({{"normalizer": {{"type": "Lowercase"}}, "pre_tokenizer": {{"type": "WhitespaceSplit"}},
      "added_tokens": [{{"id": 1, "content": "Foo", "normalized": true, "special": {}}},
                       {{"id": 2, "content": "foo", "normalized": true, "special": {}}}],
      "model": {{"type": "WordLevel", "vocab": {{"<unk>": 0}}, "unk_token": "<unk>"}}}})",
                             first_special, second_special));
    return load_tokenizer_json(folder.path() / "tokenizer.json")->encode("a foo b");
  };
  EXPECT_EQ(ids(false, false), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(ids(false, true), (std::vector<int64_t>{0, 2, 0}));
  EXPECT_EQ(ids(true, false), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(ids(true, true), (std::vector<int64_t>{0, 1, 0}));
}

TEST(TokenizerJson, PiecesReadAsTheyDoWithinText) {
  for (const char* name : {"unigram_t5", "bpe_byte_level", "bpe_byte_fallback"}) {
    const auto tokenizer = load_tokenizer_json(kFixtures / (std::string(name) + ".json"));
    const auto ids = tokenizer->encode("hello small world");
    std::string text;
    for (const int64_t id : ids)
      if (!tokenizer->decode(std::vector<int64_t>{id, id}).empty()) text += tokenizer->piece(id);
    text.erase(0, text.find_first_not_of(' '));
    EXPECT_EQ(text, tokenizer->decode(ids)) << name;
  }
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json")
      << R"({"decoder": {"type": "Metaspace"}, "model": {"type": "WordLevel",
    "vocab": {"<unk>": 0, "\u2581the": 1, "s": 2}, "unk_token": "<unk>"}})";
  const auto tokenizer = load_tokenizer_json(folder.path() / "tokenizer.json");
  EXPECT_EQ(tokenizer->piece(1), " the");
  EXPECT_EQ(tokenizer->piece(2), "s");
}

// An empty mark in front of words stood between all characters, without end.
TEST(TokenizerJson, EmptyMarksStandNowhere) {
  const test::TemporaryFolder folder;
  for (const char* decoder :
       {R"({"type": "Metaspace", "replacement": ""})", R"({"type": "BPEDecoder", "suffix": ""})"}) {
    std::ofstream(folder.path() / "tokenizer.json")
        << R"({"decoder": )" << decoder
        << R"(, "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "the": 1}, "unk_token": "<unk>"}})";
    EXPECT_EQ(load_tokenizer_json(folder.path() / "tokenizer.json")->decode(std::vector<int64_t>{1}), "the") << decoder;
  }
}

// Time (the processor's: the machine may be busy) and memory of a heap: twenty thousand letters took half a second, and
// a million would take minutes.
TEST(TokenizerJson, LongWordsAreMergedInTime) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json") << R"({"model": {"type": "BPE", "merges": ["a b", "ab a", "b a"],
    "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3, "ba": 4}}})";
  const auto tokenizer = load_tokenizer_json(folder.path() / "tokenizer.json");
  constexpr size_t kPairs = 500000;
  std::string word;
  for (size_t i = 0; i < kPairs; ++i) word += "ab";
  const std::clock_t start = std::clock();
  EXPECT_EQ(tokenizer->encode(word), std::vector<int64_t>(kPairs, 2));
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);
  EXPECT_EQ(tokenizer->encode("ababaab"), (std::vector<int64_t>{2, 3, 2}));
}

}  // namespace
}  // namespace attune
