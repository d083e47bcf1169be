#include "runtime/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "graph/error.h"
#include "ops/support/parallel_items.h"
#include "ops/support/row_math.h"
#include "runtime/log_sum.h"
#include "runtime/sampling.h"
#include "runtime/token_rules.h"
#include "runtime/token_selector.h"

namespace attune {
namespace {

// Stands for "impossible" where transformers uses it: a finite number, with which sums stay ordered.
constexpr float kImpossible = -1e9F;

struct Candidate {
  float score;  // sum of log-probabilities
  size_t beam;  // of the step before
  int64_t token;
  bool ends;                  // the end of sequence, or max_length reached
  float log_probability = 0;  // of the token alone; if asked for
};

struct Beam {
  std::vector<int64_t> tokens;
  float score = kImpossible;
  std::vector<int32_t> rows;
  std::vector<float> log_probabilities;
  int32_t row = 0;  // in the model's last step
};

struct Finished {
  Hypothesis hypothesis;
  float score = kImpossible;  // length penalty applied
  bool real = false;          // false: a place that nothing has taken yet
};

// Best first; equal ones in their order.
template <class T, class Key>
std::vector<T> best(std::vector<T> from, size_t count, Key key) {
  std::stable_sort(from.begin(), from.end(), [&](const T& a, const T& b) { return key(a) > key(b); });
  if (from.size() > count) from.resize(count);
  return from;
}

// Enough for as many beams to go on if all ends of sequence are among them.
size_t candidate_count(const GenerationOptions& options) {
  return std::max<size_t>(2, 1 + options.eos_token_id.size()) * static_cast<size_t>(options.num_beams);
}

bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
}

// The beam search of one source.
class SourceBeams {
 public:
  // `limit`: new tokens at most, if there is such.
  SourceBeams(size_t source, const std::vector<int64_t>& prompt, const GenerationOptions& options,
              std::optional<int64_t> limit, std::span<const int64_t> source_tokens)
      : source_(source),
        source_tokens_(source_tokens),
        options_(options),
        beams_count_(static_cast<size_t>(options.num_beams)),
        prompt_length_(static_cast<int64_t>(prompt.size())),
        max_length_(length_limits(options, prompt_length_).max_length),
        rules_(options, prompt_length_),
        finished_(beams_count_) {
    beams_.assign(beams_count_, {prompt, kImpossible, {}, {}, static_cast<int32_t>(source)});
    if (limit) max_length_ = std::min(max_length_, prompt_length_ + *limit);
    beams_[0].score = 0;  // only the first counts at the start: they are all the same
  }

  bool done() const { return done_; }
  std::vector<Beam>& beams() { return beams_; }
  int64_t length() const { return static_cast<int64_t>(beams_[0].tokens.size()); }

  // Takes the log-probabilities of one step; `row(i)` gives those of row i.
  void advance(const std::function<std::span<const float>(size_t)>& row, uint64_t step) {
    take(options_.do_sample ? sample_candidates(row, step) : top_candidates(row));
  }

  // Takes the best tokens of one step, whose scores are log-probabilities of the whole sequences.
  void advance(const BestTokens& best) { take(best_candidates(best)); }

  // Calls back with the tokens that are new in what all hypotheses that may still win begin with.
  void settle(const TokenCallback& callback) {
    const std::vector<int64_t>* first = nullptr;
    size_t common = 0;
    const auto limit = [&](const std::vector<int64_t>& tokens) {
      if (!first) {
        first = &tokens;
        common = tokens.size();
        return;
      }
      const auto end = first->begin() + static_cast<std::ptrdiff_t>(std::min(common, tokens.size()));
      common = static_cast<size_t>(std::mismatch(first->begin(), end, tokens.begin()).first - first->begin());
    };
    for (const Finished& f : finished_)
      if (f.real) limit(f.hypothesis.tokens);
    for (const Beam& b : beams_)
      if (!done_ && b.score > kImpossible / 2) limit(b.tokens);
    for (; settled_ < common; ++settled_) callback(source_, 0, (*first)[settled_]);
  }

  // Calls back with what is not settled of each result.
  void settle_results(const std::vector<Hypothesis>& results, const TokenCallback& callback) const {
    for (size_t i = 0; i < results.size(); ++i)
      for (size_t t = i == 0 ? settled_ : static_cast<size_t>(prompt_length_); t < results[i].tokens.size(); ++t)
        callback(source_, i, results[i].tokens[t]);
  }

  std::vector<Hypothesis> results() {
    std::vector<Hypothesis> out;
    for (Finished& f : finished_) {
      if (!f.real || out.size() == static_cast<size_t>(options_.num_return_sequences)) break;
      out.push_back(std::move(f.hypothesis));
      out.back().score = f.score;
    }
    // As transformers gives what couldn't end.
    if (out.empty()) out.push_back({beams_[0].tokens, kImpossible, beams_[0].rows, beams_[0].log_probabilities});
    return out;
  }

 private:
  void take(const std::vector<Candidate>& candidates) {
    std::vector<Beam> extended;
    for (const Candidate& c : candidates) {
      check_best_score(c.score);
      extended.push_back(extend(c));
    }
    if (candidates.empty() || candidates.front().score == -std::numeric_limits<float>::infinity()) {
      done_ = true;  // the rules leave no token
      return;
    }
    update_finished(candidates, extended);
    next_beams(candidates, std::move(extended));
    const bool all_end = std::all_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.ends; });
    improvable_ = improvable_ && can_improve();
    done_ = all_end || !improvable_ || (options_.early_stopping == EarlyStopping::kTrue && full());
  }

  size_t candidate_count() const { return attune::candidate_count(options_); }

  Candidate candidate(float score, size_t beam, size_t token) const {
    const auto& eos = options_.eos_token_id;
    const auto id = static_cast<int64_t>(token);
    const bool ends = std::find(eos.begin(), eos.end(), id) != eos.end() || length() + 1 >= max_length_;
    const float own = options_.output_log_probabilities ? score - beams_[beam].score - normalizer_ : 0.0F;
    return {score, beam, id, ends, own};
  }

  // The log-probabilities of a beam's next tokens after the rules of the options, without those of the tokens before.
  // Beams may share a row.
  std::span<const float> scores_of(size_t beam, std::span<const float> row) {
    normalizer_ = 0;
    if (rules_.empty() && !options_.do_sample) return row;
    scores_.assign(row.begin(), row.end());
    rules_.apply(beams_[beam].tokens, scores_, source_tokens_);
    if (options_.do_sample) warp(options_, options_.eos_token_id.size() + 1, scores_);
    rules_.finish(scores_);
    if (options_.output_log_probabilities) normalizer_ = log_sum_exp(scores_);
    return scores_;
  }

  std::vector<Candidate> top_candidates(const std::function<std::span<const float>(size_t)>& row) {
    const size_t count = candidate_count();
    std::vector<Candidate> heap;  // its front is the worst
    for (size_t beam = 0; beam < beams_.size(); ++beam) {
      const auto scores = scores_of(beam, row(static_cast<size_t>(beams_[beam].row)));
      const float before = beams_[beam].score;
      const auto n = static_cast<int64_t>(scores.size());
      for (int64_t token = 0; token < n; ++token) {
        if (heap.size() == count) {
          // Skips what is too small even if rounding favours it.
          const float worst = heap.front().score;
          const float slack = 1e-6F * (std::abs(worst) + std::abs(before));
          token = find_above(scores.data(), token, n, worst - before - slack);
          if (token == n) break;
        }
        const float score = scores[static_cast<size_t>(token)] + before;
        if (heap.size() == count && !(score > heap.front().score)) continue;
        if (heap.size() == count) {
          std::pop_heap(heap.begin(), heap.end(), better);
          heap.pop_back();
        }
        heap.push_back(candidate(score, beam, static_cast<size_t>(token)));
        std::push_heap(heap.begin(), heap.end(), better);
      }
    }
    std::sort(heap.begin(), heap.end(), better);
    return heap;
  }

  std::vector<Candidate> best_candidates(const BestTokens& best) const {
    std::vector<Candidate> all;
    for (size_t beam = 0; beam < beams_.size(); ++beam) {
      if (beam > 0 && beams_[beam].row == beams_[0].row)
        break;  // at first all share a row, and the others are impossible
      const size_t from = static_cast<size_t>(beams_[beam].row) * best.count;
      for (size_t i = from; i < from + best.count; ++i)
        all.push_back(candidate(best.scores[i], beam, static_cast<size_t>(best.tokens[i])));
    }
    std::sort(all.begin(), all.end(), better);
    if (all.size() > candidate_count()) all.resize(candidate_count());
    return all;
  }

  // Draws without replacement: the largest of scores with Gumbel noise (Gumbel-top-k), in the order of the draw.
  std::vector<Candidate> sample_candidates(const std::function<std::span<const float>(size_t)>& row, uint64_t step) {
    struct Noisy {
      double key;
      Candidate candidate;
    };
    std::vector<Noisy> all;
    for (size_t beam = 0; beam < beams_.size(); ++beam) {
      const auto scores = scores_of(beam, row(static_cast<size_t>(beams_[beam].row)));
      for (size_t token = 0; token < scores.size(); ++token) {
        if (std::isinf(scores[token])) continue;
        const double u = uniform(options_.seed, source_, beam * scores.size() + token, step);
        const float score = scores[token] + beams_[beam].score;
        all.push_back({score - std::log(-std::log(u + 0x1.0p-54)), candidate(score, beam, token)});
      }
    }
    if (all.empty()) throw Error(Error::Kind::kInvalidArgument, "no token is left to draw: all are suppressed");
    std::vector<Candidate> drawn;
    for (const Noisy& n : best(std::move(all), candidate_count(), [](const Noisy& x) { return x.key; }))
      drawn.push_back(n.candidate);
    return drawn;
  }

  Beam extend(const Candidate& c) const {
    Beam b = beams_[c.beam];
    b.tokens.push_back(c.token);
    b.rows.push_back(b.row);
    if (options_.output_log_probabilities) b.log_probabilities.push_back(c.log_probability);
    b.score = c.score;
    return b;
  }

  float penalty(int64_t new_tokens) const {
    return static_cast<float>(std::pow(static_cast<double>(new_tokens), static_cast<double>(options_.length_penalty)));
  }

  bool full() const {
    return std::all_of(finished_.begin(), finished_.end(), [](const Finished& f) { return f.real; });
  }

  // Only the first num_beams candidates may finish; the others are there so that enough go on.
  void update_finished(const std::vector<Candidate>& candidates, const std::vector<Beam>& extended) {
    const bool closed = !improvable_ || (options_.early_stopping == EarlyStopping::kTrue && full());
    if (closed) return;
    const float divisor = penalty(length() + 1 - prompt_length_);
    std::vector<Finished> all = std::move(finished_);
    for (size_t i = 0; i < std::min(candidates.size(), beams_count_); ++i)
      if (candidates[i].ends)
        all.push_back({{extended[i].tokens, {}, extended[i].rows, extended[i].log_probabilities},
                       candidates[i].score / divisor,
                       true});
    finished_ = best(std::move(all), beams_count_, [](const Finished& f) { return f.score; });
  }

  void next_beams(const std::vector<Candidate>& candidates, std::vector<Beam> extended) {
    for (size_t i = 0; i < extended.size(); ++i)
      if (candidates[i].ends) extended[i].score += kImpossible;
    beams_ = best(std::move(extended), beams_count_, [](const Beam& b) { return b.score; });
  }

  // Whether the best running beam could still beat the worst finished one.
  bool can_improve() const {
    const bool longest = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
    const float possible = beams_[0].score / penalty((longest ? max_length_ : length()) - prompt_length_);
    const float worst = finished_.back().score;
    return std::any_of(finished_.begin(), finished_.end(),
                       [&](const Finished& f) { return possible > (f.real ? worst : kImpossible); });
  }

  size_t source_;
  std::span<const int64_t> source_tokens_;
  const GenerationOptions& options_;
  size_t beams_count_;
  int64_t prompt_length_, max_length_;
  TokenRules rules_;
  std::vector<Beam> beams_;
  std::vector<Finished> finished_;  // best first
  std::vector<float> scores_;       // of one beam
  float normalizer_ = 0;            // log_sum_exp() of these before the beam's own score was added
  size_t settled_ = static_cast<size_t>(prompt_length_);  // tokens that all agree on
  bool improvable_ = true;
  bool done_ = false;
};

// Log-probabilities of each row, or its best tokens, after one step.
class BeamSteps {
 public:
  BeamSteps(StepModel& model, const GenerationOptions& options, int64_t prompt_length)
      : model_(model),
        selector_(dynamic_cast<TokenSelector*>(&model)),
        options_(options),
        rules_(options, prompt_length),
        wanted_(candidate_count(options)) {}

  // `scores`: of the sequences. Gives the vocabulary.
  size_t run(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents,
             std::span<const float> scores) {
    best_.reset();
    const size_t vocabulary = selector_ ? selector_->selects() : 0;
    if (const auto excluded = excluded_tokens(static_cast<int64_t>(sequences[0].size()), vocabulary)) {
      best_ = selector_->select(sequences, parents, {wanted_, *excluded, scores});
      return vocabulary;
    }
    scores_ = model_.step(sequences, parents);
    parallel_items(static_cast<int64_t>(sequences.size()), static_cast<int64_t>(4 * scores_.vocabulary),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r) {
                       const std::span<float> row = scores_.row(static_cast<size_t>(r));
                       log_softmax_row(row.data(), row.data(), static_cast<int64_t>(row.size()));
                     }
                   });
    return scores_.vocabulary;
  }

  void advance(SourceBeams& source, uint64_t step) const {
    if (best_) return source.advance(*best_);
    source.advance([&](size_t r) { return std::span<const float>(scores_.row(r)); }, step);
  }

 private:
  // What no beam may take next, if the model can choose and the rules are no more than that.
  std::optional<std::vector<int64_t>> excluded_tokens(int64_t length, size_t vocabulary) const {
    constexpr size_t kMost = 128;  // with more, keeping the best of each stretch costs more than storing scores
    if (options_.do_sample || options_.output_log_probabilities || wanted_ > kMost) return std::nullopt;
    auto excluded = vocabulary > 0 ? rules_.excluded(length, vocabulary) : std::nullopt;
    if (excluded && vocabulary < excluded->size() + wanted_) return std::nullopt;
    return excluded;
  }

  StepModel& model_;
  TokenSelector* selector_;  // the same model; null if it can't choose
  const GenerationOptions& options_;
  TokenRules rules_;
  size_t wanted_;  // tokens of each row
  std::optional<BestTokens> best_;
  Scores scores_;  // if there are no best
};

// The first step gives each source one sequence for each token of the vocabulary; so wide a beam would only be filled
// later.
void check_beams(int64_t beams, size_t vocabulary) {
  constexpr size_t kAlwaysFine = 1024;
  const size_t most = std::max(vocabulary, kAlwaysFine);
  if (static_cast<size_t>(beams) > most)
    throw Error(
        Error::Kind::kInvalidArgument,
        fmt::format("num_beams: expected at most {} (of a vocabulary of {}), found {}", most, vocabulary, beams));
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(StepModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                                 const GenerationOptions& options, const TokenCallback& callback,
                                                 const std::vector<int64_t>& limits,
                                                 const std::vector<std::vector<int64_t>>& source_tokens) {
  std::vector<SourceBeams> sources;
  const auto begin = [&](size_t vocabulary) {
    check_beams(options.num_beams, vocabulary);
    for (size_t s = 0; s < prompts.size(); ++s)
      sources.emplace_back(s, prompts[s], options, limits.empty() ? std::nullopt : std::optional(limits[s]),
                           source_tokens.empty() ? std::span<const int64_t>() : source_tokens.at(s));
  };
  const auto max_length = length_limits(options, static_cast<int64_t>(prompts[0].size())).max_length;
  std::vector<std::vector<int64_t>> sequences = prompts;
  std::vector<int32_t> parents;
  std::vector<float> scores(prompts.size(), 0.0F);
  BeamSteps steps(model, options, static_cast<int64_t>(prompts[0].size()));
  auto length = static_cast<int64_t>(prompts[0].size());
  for (uint64_t step = 0; length < max_length && !sequences.empty(); ++step, ++length) {
    const size_t vocabulary = steps.run(sequences, parents, scores);
    if (step == 0) begin(vocabulary);
    parents.clear();
    sequences.clear();
    scores.clear();
    for (SourceBeams& source : sources) {
      if (source.done()) continue;
      steps.advance(source, step);
      if (callback) source.settle(callback);
      if (source.done()) continue;
      for (Beam& beam : source.beams()) {
        parents.push_back(beam.row);
        sequences.push_back(beam.tokens);
        scores.push_back(beam.score);
        beam.row = static_cast<int32_t>(parents.size() - 1);
      }
    }
  }
  std::vector<std::vector<Hypothesis>> results(prompts.size());
  for (size_t s = 0; s < sources.size(); ++s) {
    results[s] = sources[s].results();
    if (callback) sources[s].settle_results(results[s], callback);
  }
  return results;
}

}  // namespace attune
