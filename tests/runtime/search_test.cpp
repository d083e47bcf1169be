#include "runtime/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "graph/error.h"
#include "runtime/token_rules.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using Tokens = std::vector<int64_t>;
constexpr float kOut = -std::numeric_limits<float>::infinity();

// Scores that depend on the source, the last token and the length; follows parents as a decoder with a cache does.
class Markov : public StepModel {
 public:
  Markov(size_t sources, size_t vocabulary, unsigned seed) : vocabulary_(vocabulary), sources_(sources), seed_(seed) {}

  Scores step(const std::vector<Tokens>& sequences, std::span<const int32_t> parents) override {
    std::vector<size_t> next;
    for (size_t r = 0; r < sequences.size(); ++r)
      next.push_back(parents.empty() ? r : row_sources_.at(static_cast<size_t>(parents[r])));
    row_sources_ = next;
    values_.clear();
    for (size_t r = 0; r < sequences.size(); ++r)
      for (const float l : logits(row_sources_[r], sequences[r])) values_.push_back(l);
    largest_batch_ = std::max(largest_batch_, sequences.size());
    last_batch_ = sequences.size();
    length_ = sequences[0].size();
    return {values_, vocabulary_};
  }

  std::vector<float> logits(size_t source, const Tokens& tokens) const {
    std::seed_seq seed{seed_, static_cast<unsigned>(source), static_cast<unsigned>(tokens.back()),
                       static_cast<unsigned>(tokens.size())};
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> out(vocabulary_);
    for (float& l : out) l = normal(random);
    return out;
  }

  size_t vocabulary_, sources_, largest_batch_ = 0, last_batch_ = 0;
  size_t length_ = 0;  // of the sequences of the last step

 private:
  unsigned seed_;
  std::vector<size_t> row_sources_;
  std::vector<float> values_;
};

double log_probability(const std::vector<float>& logits, size_t token) {
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l));
  return logits[token] - std::log(sum);
}

// The best score of all sequences there are.
double best_of_all(const Markov& model, size_t source, Tokens tokens, double sum, const GenerationOptions& o) {
  const auto new_tokens = static_cast<int64_t>(tokens.size()) - 1;
  const bool ended = new_tokens > 0 && tokens.back() == o.eos_token_id.at(0);
  if (ended || new_tokens == *o.max_new_tokens)
    return sum / std::pow(static_cast<double>(new_tokens), static_cast<double>(o.length_penalty));
  const auto logits = model.logits(source, tokens);
  double best = -1e30;
  for (size_t t = 0; t < model.vocabulary_; ++t) {
    tokens.push_back(static_cast<int64_t>(t));
    best = std::max(best, best_of_all(model, source, tokens, sum + log_probability(logits, t), o));
    tokens.pop_back();
  }
  return best;
}

TEST(BeamSearch, WideEnoughFindsTheBestOfAllSequences) {
  for (const float penalty : {0.0F, 1.0F, 2.0F})
    for (unsigned seed = 0; seed < 5; ++seed) {
      Markov model(2, 4, seed);
      GenerationOptions o;
      o.eos_token_id = {0};
      o.max_new_tokens = 4;
      o.num_beams = 81;
      o.length_penalty = penalty;
      o.early_stopping = EarlyStopping::kNever;
      const auto found = search(model, {{1}, {1}}, o);
      for (size_t s = 0; s < 2; ++s)
        EXPECT_NEAR(*found[s][0].score, best_of_all(model, s, {1}, 0, o), 1e-4) << penalty << " " << seed << " " << s;
    }
}

TEST(BeamSearch, SettlesTheBestSequenceStepByStep) {
  size_t early = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Markov model(3, 6, seed);
    GenerationOptions o;
    o.eos_token_id = {0};
    o.max_new_tokens = 12;
    o.num_beams = 3;
    o.num_return_sequences = 2;
    std::vector<std::vector<Tokens>> settled(3, {{1}, {1}});
    const auto callback = [&](size_t source, size_t sequence, int64_t token) {
      settled.at(source).at(sequence).push_back(token);
      early += sequence == 0 && model.length_ < 6;  // of 13 tokens at most
    };
    const auto found = search(model, {{1}, {1}, {1}}, o, callback);
    for (size_t s = 0; s < 3; ++s)
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(settled[s][i], found[s][i].tokens) << seed << " " << s << " " << i;
  }
  EXPECT_GT(early, 0U);
}

TEST(Search, GreedyTakesTheBestTokenAndEndedSequencesLeave) {
  Markov model(6, 5, 3);
  GenerationOptions o;
  o.eos_token_id = {0};
  o.max_new_tokens = 6;
  const std::vector<Tokens> prompts(6, Tokens{1});
  const auto found = search(model, prompts, o);
  size_t longest = 0;
  for (size_t s = 0; s < 6; ++s) {
    Tokens expected{1};
    while (expected.size() < 7 && (expected.size() == 1 || expected.back() != 0)) {
      const auto l = model.logits(s, expected);
      expected.push_back(std::max_element(l.begin(), l.end()) - l.begin());
    }
    EXPECT_EQ(found[s][0].tokens, expected);
    longest = std::max(longest, expected.size());
  }
  EXPECT_EQ(model.largest_batch_, 6U);
  EXPECT_LT(model.last_batch_, 6U) << "the seed must end some early";
}

TEST(Search, SourcesDoNotSeeEachOther) {
  GenerationOptions o;
  o.eos_token_id = {0};
  o.max_new_tokens = 8;
  for (const int64_t beams : {1, 3}) {
    o.num_beams = o.num_return_sequences = beams;
    Markov together(3, 7, 11);
    const auto all = search(together, {{1}, {2}, {3}}, o);
    Markov alone(1, 7, 11);
    const auto one = search(alone, {{1}}, o);
    ASSERT_EQ(all[0].size(), one[0].size());
    for (size_t i = 0; i < one[0].size(); ++i) EXPECT_EQ(all[0][i].tokens, one[0][i].tokens);
  }
}

TEST(Search, RowsLeadBackToTheStepThatGaveEachToken) {
  Markov model(2, 6, 5);
  GenerationOptions o;
  o.max_new_tokens = 5;
  o.num_beams = 3;
  for (const auto& source : search(model, {{1}, {1}}, o))
    for (const Hypothesis& h : source) EXPECT_EQ(h.rows.size(), h.tokens.size() - 1);
}

TEST(Search, RefusesOptionsThatContradict) {
  Markov model(1, 4, 0);
  GenerationOptions o;
  o.num_return_sequences = 3;
  EXPECT_THROW(search(model, {{1}}, o), Error);
  o.num_beams = 3;
  EXPECT_NO_THROW(search(model, {{1}}, o));
  for (const int64_t beams : {int64_t{0}, int64_t{1025}, int64_t{1} << 40}) {
    o.num_beams = beams;
    EXPECT_THROW(search(model, {{1}}, o), Error);
  }
  EXPECT_THROW(search(model, {{1}, {1, 2}}, GenerationOptions()), Error);
  o.num_beams = kMostSequences + 1;
  EXPECT_THROW(search(model, {{1}}, o), Error);
}

// transformers: "Input length of decoder_input_ids is 3, but `max_length` is set to 3".
TEST(Search, RefusesAPromptThatIsAsLongAsTheOutputMayBe) {
  Markov model(1, 4, 0);
  GenerationOptions o;
  o.max_length = 3;
  EXPECT_EQ(search(model, {{1, 2}}, o)[0][0].tokens.size(), 3U);
  for (const int64_t beams : {1, 2}) {
    o.num_beams = beams;
    EXPECT_THROW(search(model, {{1, 2, 1}}, o), Error);
  }
  o.max_new_tokens = 0;
  EXPECT_THROW(search(model, {{1}}, o), Error);
}

std::vector<float> after(const GenerationOptions& o, const Tokens& tokens, std::vector<float> scores,
                         int64_t prompt = 1) {
  TokenRules(o, prompt).apply(tokens, scores);
  return scores;
}

TEST(TokenRules, EachRule) {
  using testing::ElementsAre;
  const std::vector<float> scores{1, -2, 3, 4};
  const auto with = [](const std::function<void(GenerationOptions&)>& set) {
    GenerationOptions o;
    o.eos_token_id = {0};
    o.max_new_tokens = 5;
    set(o);
    return o;
  };
  EXPECT_THAT(after(with([](auto& o) { o.repetition_penalty = 2; }), {1, 2, 2}, scores), ElementsAre(1, -4, 1.5, 4));
  EXPECT_THAT(after(with([](auto& o) { o.no_repeat_ngram_size = 2; }), {2, 3, 2}, scores), ElementsAre(1, -2, 3, kOut));
  EXPECT_THAT(after(with([](auto& o) { o.no_repeat_ngram_size = 2; }), {2}, scores), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(after(with([](auto& o) {
                      o.bad_words_ids = {{0}, {1}, {2, 3}};
                    }),
                    {1, 2}, scores),
              ElementsAre(1, kOut, 3, kOut));
  EXPECT_THAT(after(with([](auto& o) { o.min_length = 3; }), {1, 2}, scores), ElementsAre(kOut, -2, 3, 4));
  EXPECT_THAT(after(with([](auto& o) { o.min_new_tokens = 2; }), {1, 2, 3}, scores), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(after(with([](auto& o) { o.forced_bos_token_id = 2; }), {1}, scores), ElementsAre(kOut, kOut, 0, kOut));
  EXPECT_THAT(after(with([](auto& o) { o.forced_bos_token_id = 2; }), {1, 2}, scores), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(after(with([](auto& o) { o.forced_eos_token_id = {0}; }), {1, 2, 3, 1, 2}, scores),
              ElementsAre(0, kOut, kOut, kOut));
  EXPECT_THAT(after(with([](auto& o) { o.suppress_tokens = {2, 99}; }), {1}, scores), ElementsAre(1, -2, kOut, 4));
  EXPECT_THAT(after(with([](auto& o) { o.begin_suppress_tokens = {2}; }), {1}, scores), ElementsAre(1, -2, kOut, 4));
  EXPECT_THAT(after(with([](auto& o) { o.begin_suppress_tokens = {2}; }), {1, 1}, scores), ElementsAre(1, -2, 3, 4));
}

TEST(TokenRules, OfTheSourceAndOfTheLength) {
  using testing::ElementsAre;
  const std::vector<float> scores{1, -2, 3, 4};
  GenerationOptions o;
  o.eos_token_id = {0};
  o.max_new_tokens = 9;
  const auto with_source = [&](const GenerationOptions& options, const Tokens& tokens) {
    std::vector<float> out = scores;
    TokenRules(options, 1).apply(tokens, out, Tokens{1, 2, 3});
    return out;
  };
  GenerationOptions source = o;
  source.encoder_repetition_penalty = 2;
  EXPECT_THAT(with_source(source, {0}), ElementsAre(1, -1, 6, 8));
  source = o;
  source.encoder_no_repeat_ngram_size = 2;
  EXPECT_THAT(with_source(source, {0, 2}), ElementsAre(1, -2, 3, kOut));
  EXPECT_THAT(with_source(source, {0}), ElementsAre(1, -2, 3, 4));
  GenerationOptions bias = o;
  bias.sequence_bias = {{{3}, -1.0F}, {{2, 1}, 5.0F}};
  EXPECT_THAT(after(bias, {0, 2}, scores), ElementsAre(1, 3, 3, 3));
  EXPECT_THAT(after(bias, {0, 3}, scores), ElementsAre(1, -2, 3, 3));
  GenerationOptions decay = o;
  decay.exponential_decay_length_penalty = {1, 2.0F};
  EXPECT_THAT(after(decay, {1, 2}, scores), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(after(decay, {1, 2, 3, 3}, scores), ElementsAre(4, -2, 3, 4));
  GenerationOptions valid = o;
  valid.remove_invalid_values = true;
  EXPECT_THAT(after(valid, {1}, {std::nanf(""), -kOut, kOut, 2}),
              ElementsAre(0, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 2));
}

// Tokens 0 and 1 are text, 2 ends, 3 is "no timestamps", 4 to 7 are times; the prompt is one token.
TEST(TokenRules, Timestamps) {
  using testing::ElementsAre;
  GenerationOptions o;
  o.eos_token_id = {2};
  o.max_new_tokens = 9;
  o.return_timestamps = true;
  o.no_timestamps_token_id = 3;
  const std::vector<float> text{9, 1, 2, 30, 1, 1, 1, 1}, time{1, 1, 1, 1, 1, 1, 1, 1};
  // The first token is a time, at most so late.
  EXPECT_THAT(after(o, {0}, text), ElementsAre(kOut, kOut, kOut, kOut, 1, 1, 1, 1));
  o.max_initial_timestamp_index = 1;
  EXPECT_THAT(after(o, {0}, text), ElementsAre(kOut, kOut, kOut, kOut, 1, 1, kOut, kOut));
  // After it comes text; after text a later time, where times together are more probable than any text.
  EXPECT_THAT(after(o, {0, 5}, text), ElementsAre(9, 1, 2, kOut, kOut, kOut, kOut, kOut));
  EXPECT_THAT(after(o, {0, 5, 1}, text), ElementsAre(9, 1, 2, kOut, kOut, kOut, 1, 1));
  EXPECT_THAT(after(o, {0, 5, 1}, time), ElementsAre(kOut, kOut, kOut, kOut, kOut, kOut, 1, 1));
  // A time that ends text is followed by a time, the same or a later one, or by the end.
  EXPECT_THAT(after(o, {0, 5, 1, 6}, {9, 9, 9, 9, 1, 1, 1, 1}), ElementsAre(kOut, kOut, 9, kOut, kOut, kOut, 1, 1));
  EXPECT_THAT(after(o, {0, 5, 1, 6, 6}, text), ElementsAre(9, 1, 2, kOut, kOut, kOut, kOut, kOut));
  EXPECT_THAT(after(o, {0, 5, 1, 6, 6, 1}, text), ElementsAre(9, 1, 2, kOut, kOut, kOut, kOut, 1));
}

TEST(Options, WaysOfSearchingThatAreNotKnownAreRefused) {
  GenerationOptions o;
  read_generation_options(R"({"num_beam_groups": 1, "diversity_penalty": 0.0, "guidance_scale": null})", o);
  for (const char* text : {R"({"num_beam_groups": 2})", R"({"penalty_alpha": 0.6})", R"({"force_words_ids": [[1]]})",
                           R"({"guidance_scale": 1.5})", R"({"stop_strings": ["."]})"})
    EXPECT_THROW(read_generation_options(text, o), Error) << text;
}

// transformers ends nothing at a token below 0; -1 is how configurations without an end are written.
TEST(GenerationOptions, EndTokensBelowZero) {
  GenerationOptions o;
  read_generation_options(R"({"eos_token_id": -1})", o);
  EXPECT_THAT(o.eos_token_id, testing::IsEmpty());
  read_generation_options(R"({"eos_token_id": [2, -1, 3]})", o);
  EXPECT_THAT(o.eos_token_id, testing::ElementsAre(2, 3));
  for (const char* text : {R"({"eos_token_id": -2})", R"({"eos_token_id": [2, -100]})"})
    EXPECT_THAT(test::thrown([&] { read_generation_options(text, o); }),
                test::IsError(Error::Kind::kInvalidArgument, "eos_token_id"))
        << text;
}

TEST(Options, NullIsNoneWhereAnOptionMayBeNone) {
  GenerationOptions o;
  o.eos_token_id = {2};
  o.forced_bos_token_id = 5;
  o.suppress_tokens = {1};
  o.num_beams = 3;
  read_generation_options(
      R"({"eos_token_id": null, "forced_bos_token_id": null, "suppress_tokens": null, "num_beams": null})", o);
  EXPECT_TRUE(o.eos_token_id.empty());
  EXPECT_FALSE(o.forced_bos_token_id);
  EXPECT_TRUE(o.suppress_tokens.empty());
  EXPECT_EQ(o.num_beams, 3);
}

TEST(Options, FromText) {
  GenerationOptions o;
  set_generation_option("num_beams", "3", o);
  set_generation_option("early_stopping", "never", o);
  set_generation_option("bad_words_ids", "[[1, 2]]", o);
  EXPECT_EQ(o.num_beams, 3);
  EXPECT_EQ(o.early_stopping, EarlyStopping::kNever);
  EXPECT_EQ(o.bad_words_ids, (std::vector<std::vector<int64_t>>{{1, 2}}));
  EXPECT_THROW(set_generation_option("num_beam", "3", o), Error);
  EXPECT_THROW(set_generation_option("num_beams", "many", o), Error);
  set_generation_option("sequence_bias", "[[[3], 10.0], [[2, 3], 1.5], [[3], -5.0]]", o);  // transformers keeps a dict
  EXPECT_THAT(o.sequence_bias,
              testing::UnorderedElementsAre(testing::Pair(Tokens{3}, -5.0F), testing::Pair(Tokens{2, 3}, 1.5F)));
}

TEST(Search, LengthsBeyondAllBoundsAreCut) {
  GenerationOptions o;
  o.max_new_tokens = std::numeric_limits<int64_t>::max();
  o.min_new_tokens = std::numeric_limits<int64_t>::max();
  const LengthLimits limits = length_limits(o, 5);
  EXPECT_EQ(limits.max_length, 5 + kLongestOutput);
  EXPECT_EQ(limits.min_length, 5 + kLongestOutput);
}

// Options that contradict each other: the last token must be the end, and the end is forbidden. Transformers gives the
// best sequence that there was until then, with this score.
TEST(BeamSearch, GivesWhatCouldNotEnd) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    Markov model(2, 4, seed);
    GenerationOptions o;
    o.eos_token_id = {0};
    o.forced_eos_token_id = {0};
    o.suppress_tokens = {0};
    o.max_new_tokens = 3;
    o.num_beams = 16;
    const auto found = search(model, {{1}, {1}}, o);
    ASSERT_EQ(found.size(), 2U);
    for (size_t source = 0; source < 2; ++source) {
      Tokens best;
      double most = -1e30;
      for (int64_t a = 1; a < 4; ++a)
        for (int64_t b = 1; b < 4; ++b) {
          const double sum = log_probability(model.logits(source, {1}), static_cast<size_t>(a)) +
                             log_probability(model.logits(source, {1, a}), static_cast<size_t>(b));
          if (sum > most) {
            most = sum;
            best = {1, a, b};
          }
        }
      ASSERT_EQ(found[source].size(), 1U);
      EXPECT_EQ(found[source][0].tokens, best);
      EXPECT_EQ(found[source][0].rows.size(), 2U);
      EXPECT_EQ(found[source][0].score, -1e9F);
    }
  }
}

TEST(Search, NothingIsDrawnWhereAllTokensAreSuppressed) {
  for (const int64_t beams : {1, 3}) {
    Markov model(1, 4, 1);
    GenerationOptions o;
    o.do_sample = true;
    o.num_beams = beams;
    o.max_new_tokens = 3;
    o.suppress_tokens = {0, 1, 2, 3};
    EXPECT_THAT(test::error_of([&] { search(model, {{0}}, o); }), testing::HasSubstr("no token is left"));
  }
}

}  // namespace
}  // namespace attune
