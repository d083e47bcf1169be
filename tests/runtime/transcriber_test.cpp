// Whisper against transformers: data/whisper is a small random model of windows of 2 s, expected.json what
// WhisperForConditionalGeneration.generate() gives (data/make_whisper.py).
#include "runtime/audio/transcriber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "passes/pass.h"
#include "passes/report.h"
#include "runtime/audio/segments.h"
#include "runtime/audio/whisper_config.h"
#include "runtime/audio/word_times.h"
#include "tests/support/sound.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;

const fs::path kWhisper = fs::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data/whisper";

Transcriber load() {
  GeneratorOptions options;
  options.alignments = options.each_head = true;
  options.prepare = [](Model& model) {
    Report report;
    optimize(model, report);
  };
  return Transcriber::load(kWhisper, options);
}

TranscriptionOptions options_of(const Transcriber& transcriber, const json& args) {
  TranscriptionOptions o = transcriber.defaults();
  o.language = args.value("language", "");
  o.task = args.value("task", "");
  o.timestamps = args.value("return_timestamps", false);
  o.condition_on_previous_text = args.value("condition_on_prev_tokens", false);
  o.prompt = args.value("prompt", "");
  o.prompt_all_segments = args.value("prompt_condition_type", "") == "all-segments";
  o.generation.num_beams = args.value("num_beams", int64_t{1});
  if (args.contains("logprob_threshold")) o.logprob_threshold = args["logprob_threshold"].get<float>();
  if (args.contains("no_speech_threshold")) o.no_speech_threshold = args["no_speech_threshold"].get<float>();
  if (args.contains("max_new_tokens")) o.generation.max_new_tokens = args["max_new_tokens"].get<int64_t>();
  return o;
}

TEST(Transcriber, EqualsTransformersTokenForToken) {
  std::ifstream in(kWhisper / "expected.json");
  const json expected = json::parse(in);
  Transcriber transcriber = load();
  for (const auto& [name, run] : expected.items()) {
    SCOPED_TRACE(name);
    TranscriptionOptions o = options_of(transcriber, run["args"]);
    o.word_timestamps = true;
    const Transcript t = transcriber.transcribe({test::made_up_sound(run["samples"]), 16000}, o);
    ASSERT_EQ(t.segments.size(), run["segments"].size());
    for (size_t i = 0; i < t.segments.size(); ++i) {
      const json& s = run["segments"][i];
      EXPECT_EQ(json(t.segments[i].tokens), s["tokens"]) << i;
      EXPECT_NEAR(t.segments[i].start, s["start"].get<double>(), 1e-3) << i;
      // transformers halves an odd number of frames, or a whole one in single precision, a step too low at times.
      EXPECT_NEAR(t.segments[i].end, s["end"].get<double>(), 0.0201) << i;
      ASSERT_EQ(t.segments[i].token_times.size(), s["token_timestamps"].size());
      for (size_t k = 0; k < s["token_timestamps"].size(); ++k)
        EXPECT_NEAR(t.segments[i].token_times[k], s["token_timestamps"][k].get<double>(), 1e-3) << i << " token " << k;
    }
  }
  EXPECT_EQ(expected.size(), 18U);
}

TEST(Transcriber, SameWithoutWordsAndAtAnyRate) {
  Transcriber transcriber = Transcriber::load(kWhisper);
  TranscriptionOptions o = transcriber.defaults();
  o.language = "de";
  o.timestamps = true;
  const Audio sound{test::made_up_sound(40000), 16000};
  const Transcript t = transcriber.transcribe(sound, o);
  size_t segments = 0;
  std::vector<double> seconds;
  transcriber.transcribe(sound, o, [&](const TranscriptSegment& s, double done) {
    EXPECT_EQ(s.tokens, t.segments.at(segments++).tokens);
    seconds.push_back(done);
  });
  EXPECT_EQ(segments, t.segments.size());
  EXPECT_EQ(seconds.back(), sound.seconds());
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  EXPECT_EQ(transcriber.transcribe({resample(sound.samples, 16000, 48000), 48000}, o).language, "de");
}

TEST(Transcriber, BadTextIsTriedAtHigherTemperatures) {
  Transcriber transcriber = Transcriber::load(kWhisper);
  const Audio sound{test::made_up_sound(20000), 16000};
  TranscriptionOptions o = transcriber.defaults();
  o.language = "en";
  o.timestamps = true;
  const auto greedy = transcriber.transcribe(sound, o).segments;
  o.temperatures = {0, 5};
  o.logprob_threshold = -100;
  EXPECT_EQ(transcriber.transcribe(sound, o).segments.front().tokens, greedy.front().tokens);
  o.logprob_threshold = 0;  // no text is as probable as that
  EXPECT_NE(transcriber.transcribe(sound, o).segments.front().tokens, greedy.front().tokens);
  o.logprob_threshold = std::nullopt;
  o.compression_ratio_threshold = 0.01F;
  EXPECT_NE(transcriber.transcribe(sound, o).segments.front().tokens, greedy.front().tokens);
  o.compression_ratio_threshold = 100;
  EXPECT_EQ(transcriber.transcribe(sound, o).segments.front().tokens, greedy.front().tokens);
}

TEST(Transcriber, LanguagesByCodeTokenAndName) {
  const WhisperConfig config = read_whisper_config(kWhisper);
  for (const char* german : {"de", "DE", "<|de|>", "german", "German"}) EXPECT_EQ(language_token(config, german), 259);
  EXPECT_EQ(language_token(config, "japanese"), 260);
  EXPECT_EQ(language_code(config, 259), "de");
  EXPECT_EQ(language_code(config, 262), "");
  try {
    language_token(config, "klingon");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("klingon"), testing::HasSubstr("de en ja")));
  }
}

TEST(Transcriber, WrongOptions) {
  Transcriber transcriber = Transcriber::load(kWhisper);
  const Audio sound{std::vector<float>(1600), 16000};
  TranscriptionOptions o = transcriber.defaults();
  o.task = "summarize";
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.word_timestamps = true;  // the generator gives no alignments
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.no_speech_threshold = 0.5F;  // without logprob_threshold
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.prompt_all_segments = true;  // without condition_on_previous_text
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.prompt = "a <|startoftranscript|>";
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o.prompt = std::string(200, 'a');  // the decoder has 64 positions
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  for (const std::vector<float>& wrong : {std::vector<float>{}, {-1.0F}, {0.0F, NAN}, {INFINITY}}) {
    o.temperatures = wrong;
    EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  }
  o = transcriber.defaults();
  o.compression_ratio_threshold = NAN;
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.generation.num_return_sequences = 2;
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
  o = transcriber.defaults();
  o.timestamps = true;
  o.generation.no_timestamps_token_id = std::nullopt;
  EXPECT_THROW(transcriber.transcribe(sound, o), Error);
}

// Times from 100 on; a window of 200 frames.
std::vector<std::vector<int64_t>> split(const std::vector<int64_t>& tokens, int64_t& seek) {
  const WindowSegments w = split_window(tokens, 100, 200);
  seek = w.seek;
  std::vector<std::vector<int64_t>> out;
  for (const WindowSegment& s : w.segments)
    out.push_back({s.start, s.stop, static_cast<int64_t>(s.begin), static_cast<int64_t>(s.end)});
  return out;
}

TEST(Segments, PairsOfTimesDivideAndTheRestIsHeardAgain) {
  int64_t seek = 0;
  EXPECT_THAT(split({100, 1, 2, 130, 130, 3, 150, 150, 4}, seek),
              ElementsAre(ElementsAre(0, 30, 0, 4), ElementsAre(30, 50, 4, 8)));
  EXPECT_EQ(seek, 100);
}

TEST(Segments, OneTimeAtTheEndMeansSilenceBehindIt) {
  int64_t seek = 0;
  EXPECT_THAT(split({100, 1, 130, 131, 2, 160}, seek),
              ElementsAre(ElementsAre(0, 30, 0, 3), ElementsAre(31, 60, 3, 6)));
  EXPECT_EQ(seek, 200);
}

TEST(Segments, WithoutPairsTheWindowIsOneSegment) {
  int64_t seek = 0;
  EXPECT_THAT(split({1, 2}, seek), ElementsAre(ElementsAre(0, 100, 0, 2)));
  EXPECT_THAT(split({100, 1, 140}, seek), ElementsAre(ElementsAre(0, 40, 0, 3)));
  EXPECT_THAT(split({}, seek), ElementsAre(ElementsAre(0, 100, 0, 0)));
  EXPECT_EQ(seek, 200);
}

TEST(Segments, TheWindowAlwaysMoves) {
  int64_t seek = 0;
  split({100, 100, 1}, seek);
  EXPECT_GT(seek, 0);
}

TEST(WordTimes, WarpsAlongTheCheapestPath) {
  // Row 1 begins with column 2, row 2 with column 3.
  const std::vector<double> costs{0, 0, 9, 9, 9,  //
                                  9, 9, 0, 9, 9,  //
                                  9, 9, 9, 0, 0};
  EXPECT_THAT(warp_in_time(costs, 3, 5), ElementsAre(0, 2, 3));
  EXPECT_THAT(warp_in_time(std::vector<double>{1, 1, 1}, 1, 3), ElementsAre(0));
  EXPECT_THAT(warp_in_time(std::vector<double>{1, 1, 1}, 3, 1), ElementsAre(0, 0, 0));
}

TEST(WordTimes, MedianWithMirroredEnds) {
  EXPECT_THAT(median_filtered(std::vector<float>{5, 1, 9, 2, 8}, 3), ElementsAre(1, 5, 2, 8, 2));
  EXPECT_THAT(median_filtered(std::vector<float>{5, 1}, 5), ElementsAre(5, 1));
}

// Tokens are pieces of text.
class Pieces : public Tokenizer {
 public:
  explicit Pieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<int64_t> encode(std::string_view) const override { return {}; }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string bytes;
    for (const int64_t id : ids) bytes += pieces_.at(static_cast<size_t>(id));
    std::string out;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool half = bytes[i] == '\xc3' && (i + 1 == bytes.size() || bytes[i + 1] != '\xa9');
      out += half || (bytes[i] == '\xa9' && (i == 0 || bytes[i - 1] != '\xc3')) ? "\xef\xbf\xbd"
                                                                                : std::string(1, bytes[i]);
    }
    return out;
  }
  std::string piece(int64_t id) const override { return pieces_.at(static_cast<size_t>(id)); }

 private:
  std::vector<std::string> pieces_;
};

std::vector<std::string> words(const std::vector<std::string>& pieces, bool spaced) {
  std::vector<int64_t> tokens(pieces.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const Pieces tokenizer(pieces);
  std::vector<std::string> out;
  size_t at = 0;
  for (const TokenGroup& g : group_words(tokens, tokenizer, spaced)) {
    EXPECT_EQ(g.begin, at);
    at = g.end;
    out.push_back(g.text);
  }
  EXPECT_EQ(at, pieces.size());
  return out;
}

TEST(WordTimes, WordsTakeTheirPunctuation) {
  EXPECT_THAT(words({" Hel", "lo", ",", " \"", "wor", "ld", "\"", "!", " caf", "\xc3", "\xa9", "."}, true),
              ElementsAre(" Hello,", " \"world\"!", " caf\xc3\xa9."));
  EXPECT_THAT(words({"a", "b", "."}, false), ElementsAre("a", "b."));
  EXPECT_TRUE(words({}, true).empty());
}

}  // namespace
}  // namespace attune
