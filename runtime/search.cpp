#include "runtime/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/error.h"
#include "ops/support/row_math.h"
#include "runtime/beam_search.h"
#include "runtime/log_sum.h"
#include "runtime/sampling.h"
#include "runtime/token_rules.h"
#include "runtime/token_selector.h"

namespace attune {
namespace {

using Sequences = std::vector<std::vector<int64_t>>;

bool contains(const std::vector<int64_t>& tokens, int64_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// Greedy search and sampling: each sequence takes one token a step, and leaves the batch when it ends.
class TokenByToken {
 public:
  TokenByToken(StepModel& model, const Sequences& prompts, const GenerationOptions& options,
               const TokenCallback& callback, const std::vector<int64_t>& limits, const Sequences& sources)
      : model_(model),
        selector_(dynamic_cast<TokenSelector*>(&model)),
        sources_(sources),
        options_(options),
        callback_(callback),
        rules_(options, static_cast<int64_t>(prompts[0].size())),
        max_length_(length_limits(options, static_cast<int64_t>(prompts[0].size())).max_length),
        results_(prompts.size()) {
    const auto copies = static_cast<size_t>(options.do_sample ? options.num_return_sequences : 1);
    for (size_t source = 0; source < prompts.size(); ++source) {
      results_[source].resize(copies);
      for (size_t copy = 0; copy < copies; ++copy) {
        results_[source][copy].tokens = prompts[source];
        const auto prompt = static_cast<int64_t>(prompts[source].size());
        const int64_t longest = limits.empty() ? max_length_ : std::min(max_length_, prompt + limits[source]);
        if (longest > prompt) running_.push_back({source, copy, static_cast<int32_t>(source), longest});
      }
    }
    sequences_ = prompts;
  }

  std::vector<std::vector<Hypothesis>> run() {
    auto length = static_cast<int64_t>(sequences_[0].size());
    for (uint64_t step = 0; length < max_length_ && !running_.empty(); ++step, ++length) {
      if (const auto excluded = excluded_tokens(length)) {
        const BestTokens best = selector_->select(sequences_, parents_, {1, *excluded, {}});
        const bool all_excluded = excluded->size() == selector_->selects();
        for (Running& r : running_) {
          const auto row = static_cast<size_t>(r.row);
          // No score is above -inf if all are NaN.
          if (!all_excluded) check_best_score(std::isinf(best.scores[row]) ? NAN : best.scores[row]);
          take(r, best.tokens[row]);
        }
      } else {
        take_tokens(model_.step(sequences_, parents_), step);
      }
      std::erase_if(running_, [](const Running& r) { return r.done; });
      next_rows();
    }
    return std::move(results_);
  }

 private:
  struct Running {
    size_t source, copy;
    int32_t row;      // of the last step
    int64_t longest;  // tokens, prompt included
    bool done = false;
  };

  // What no sequence may take next, if the model can choose and the rules are no more than that: then it need not store
  // the scores of all tokens.
  std::optional<std::vector<int64_t>> excluded_tokens(int64_t length) const {
    if (!selector_ || options_.do_sample || options_.output_log_probabilities) return std::nullopt;
    const size_t vocabulary = selector_->selects();
    return vocabulary > 0 ? rules_.excluded(length, vocabulary) : std::nullopt;
  }

  void take(Running& r, int64_t token) {
    Hypothesis& h = results_[r.source][r.copy];
    h.tokens.push_back(token);
    h.rows.push_back(r.row);
    r.done = contains(options_.eos_token_id, token) || static_cast<int64_t>(h.tokens.size()) >= r.longest;
    if (callback_) callback_(r.source, r.copy, token);
  }

  void take_tokens(const Scores& scores, uint64_t step) {
    std::vector<float> own;
    for (Running& r : running_) {
      std::span<float> row = scores.row(static_cast<size_t>(r.row));
      if (options_.do_sample) {  // copies share a row at first
        own.assign(row.begin(), row.end());
        row = own;
      }
      Hypothesis& h = results_[r.source][r.copy];
      rules_.apply(h.tokens, row, sources_.empty() ? std::span<const int64_t>() : sources_.at(r.source));
      int64_t token;
      if (options_.do_sample) {
        warp(options_, 1, row);
        rules_.finish(row);
        token = draw(row, uniform(options_.seed, r.source, r.copy, step));
      } else {
        token = argmax_row(row.data(), static_cast<int64_t>(row.size()));
        check_best_score(row[static_cast<size_t>(token)]);
      }
      if (options_.output_log_probabilities) {
        const float scale = options_.do_sample ? options_.temperature : 1.0F;
        for (float& score : row) score *= scale;
        h.log_probabilities.push_back(row[static_cast<size_t>(token)] - log_sum_exp(row));
      }
      take(r, token);
    }
  }

  void next_rows() {
    parents_.clear();
    sequences_.clear();
    for (Running& r : running_) {
      parents_.push_back(r.row);
      sequences_.push_back(results_[r.source][r.copy].tokens);
      r.row = static_cast<int32_t>(parents_.size() - 1);
    }
  }

  StepModel& model_;
  TokenSelector* selector_;  // the same model; null if it can't choose
  const Sequences& sources_;
  const GenerationOptions& options_;
  const TokenCallback& callback_;
  TokenRules rules_;
  int64_t max_length_;
  std::vector<std::vector<Hypothesis>> results_;
  std::vector<Running> running_;
  Sequences sequences_;
  std::vector<int32_t> parents_;
};

}  // namespace

std::vector<std::vector<Hypothesis>> search(StepModel& model, const Sequences& prompts,
                                            const GenerationOptions& options, const TokenCallback& callback,
                                            const std::vector<int64_t>& limits, const Sequences& sources) {
  check(options);
  if (prompts.empty()) return {};
  for (const auto& p : prompts)
    if (p.size() != prompts[0].size() || p.empty())
      throw Error(Error::Kind::kInvalidArgument, "prompts must be equally long, and not empty");
  const auto prompt = static_cast<int64_t>(prompts[0].size());
  const int64_t max_length = length_limits(options, prompt).max_length;
  if (max_length <= prompt)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("max_length ({}) leaves no room behind a prompt of {} tokens", max_length, prompt));
  if (options.num_beams == 1) return TokenByToken(model, prompts, options, callback, limits, sources).run();
  return beam_search(model, prompts, options, callback, limits, sources);
}

}  // namespace attune
