#include "runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "graph/error.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Candidate {
  size_t token;
  float score;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// The k-th largest of the scores, of which there are more.
float kth_largest(size_t k, std::span<const float> scores) {
  std::vector<float> heap(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(k));  // its front is the least
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto n = static_cast<int64_t>(scores.size());
  for (auto i = static_cast<int64_t>(k); (i = find_above(scores.data(), i, n, heap.front())) < n; ++i) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.back() = scores[static_cast<size_t>(i)];
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return heap.front();
}

// Tokens as probable as the k-th stay, too.
void keep_top_k(size_t k, std::span<float> scores) {
  if (k >= scores.size()) return;
  const float least = kth_largest(k, scores);
  for (float& s : scores)
    if (s < least) s = kMinusInfinity;
}

std::vector<Candidate> candidates_above(float bound, std::span<const float> scores) {
  std::vector<Candidate> all;
  const auto n = static_cast<int64_t>(scores.size());
  for (int64_t i = 0; (i = find_above(scores.data(), i, n, bound)) < n; ++i)
    all.push_back({static_cast<size_t>(i), scores[static_cast<size_t>(i)]});
  return all;
}

// All that may stay: with top_p, n tokens that are each less probable than (1 - top_p) / n are together less probable
// than 1 - top_p. `sum`: of all scores.
std::vector<Candidate> candidates_of(const GenerationOptions& o, size_t keep, std::span<const float> scores,
                                     const LogSum& sum) {
  if (o.top_p < 1) {
    constexpr double kSlack = 1e-3;  // more than the sum's rounding
    const double least = std::log((1 - static_cast<double>(o.top_p)) / static_cast<double>(scores.size())) - kSlack;
    auto likely = candidates_above(static_cast<float>(sum.shift + (sum.log + least)), scores);
    if (likely.size() >= keep) return likely;
  }
  return candidates_above(kMinusInfinity, scores);
}

std::vector<double> probabilities(const std::vector<Candidate>& all) {
  double top = kMinusInfinity, sum = 0;
  for (const Candidate& c : all) top = std::max<double>(top, c.score);
  std::vector<double> p;
  for (const Candidate& c : all) sum += p.emplace_back(std::exp(c.score - top));
  for (double& x : p) x /= sum;
  return p;
}

// Brings the best `count` to the front.
void select_best(std::span<Candidate> all, size_t count) {
  if (count < all.size())
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), better);
}

// Keeps the smallest set of most probable tokens whose probability reaches top_p: the last of them is found by
// halving. `sum`: of all tokens.
void keep_top_p(double top_p, size_t keep, const LogSum& sum, std::vector<Candidate>& all) {
  size_t begin = 0, end = all.size();
  double before = 0;  // probability of those better than the one at `begin`, which stays
  while (end - begin > 1) {
    const size_t half = (end - begin) / 2;
    const auto part = std::span(all).subspan(begin, end - begin);
    select_best(part, half);
    double p = before;
    for (const Candidate& c : part.first(half)) p += std::exp((static_cast<double>(c.score) - sum.shift) - sum.log);
    if (p < top_p) {
      begin += half;
      before = p;
    } else {
      end = begin + half;
    }
  }
  const size_t kept = std::min(all.size(), std::max(keep, begin + 1));
  select_best(all, kept);
  all.resize(kept);
}

// The best `keep` stay, and of the others those of at least this score.
void keep_from(double least, size_t keep, std::vector<Candidate>& all) {
  if (keep >= all.size()) return;
  const auto others = all.begin() + static_cast<std::ptrdiff_t>(keep);
  select_best(all, keep);
  all.erase(std::remove_if(others, all.end(), [&](const Candidate& c) { return c.score < least; }), all.end());
}

// `min_p`: times the probability of the best token.
void keep_min_p(double min_p, size_t keep, std::vector<Candidate>& all) {
  keep_from(std::min_element(all.begin(), all.end(), better)->score + std::log(min_p), keep, all);
}

// Tokens of less than a probability fall away.
void keep_probable(double least, size_t keep, std::vector<Candidate>& all) {
  std::vector<float> scores;
  for (const Candidate& c : all) scores.push_back(c.score);
  const LogSum sum = log_sum_row(scores.data(), static_cast<int64_t>(scores.size()));
  keep_from(static_cast<double>(sum.shift) + sum.log + std::log(least), keep, all);
}

double entropy(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum -= x > 0 ? x * std::log(x) : 0;
  return sum;
}

// Keeps the tokens whose information is nearest to the mean, until their probability reaches typical_p.
void keep_typical(double typical_p, size_t keep, std::vector<Candidate>& all) {
  struct Typical {
    double distance, p;
    Candidate candidate;
  };
  const auto p = probabilities(all);
  const double mean = entropy(p);
  std::vector<Typical> order;
  for (size_t i = 0; i < p.size(); ++i)
    order.push_back({p[i] > 0 ? std::abs(-std::log(p[i]) - mean) : INFINITY, p[i], all[i]});
  std::sort(order.begin(), order.end(), [](const Typical& a, const Typical& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.candidate.token < b.candidate.token;
  });
  double sum = 0;
  size_t last = 0;
  for (; last + 1 < order.size(); ++last) {
    sum += order[last].p;
    if (sum >= typical_p) break;
  }
  const double farthest = order[last].distance;
  all.clear();
  for (size_t i = 0; i < order.size(); ++i)
    if (i < keep || order[i].distance <= farthest) all.push_back(order[i].candidate);
}

// The more certain the distribution is, the higher lies the bound.
void keep_above_eta(double eta, size_t keep, std::vector<Candidate>& all) {
  keep_probable(std::min(eta, std::sqrt(eta) * std::exp(-entropy(probabilities(all)))), keep, all);
}

// Of `count` weights that follow each other, the one that `rest` falls into, and what is then left of `rest`; the last
// that isn't 0 where `rest` is as large as their sum, by rounding.
template <class Weight>
size_t find_weight(size_t count, Weight weight, double& rest) {
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = weight(i);
    if (w <= 0) continue;
    last = i;
    if (rest < w) return i;
    rest -= w;
  }
  rest = std::numeric_limits<double>::infinity();
  return last;
}

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

void warp(const GenerationOptions& o, size_t keep, std::span<float> scores) {
  if (o.temperature != 1)
    for (float& s : scores) s /= o.temperature;
  if (o.top_k > 0) keep_top_k(std::max(static_cast<size_t>(o.top_k), keep), scores);
  if (o.top_p >= 1 && !o.min_p && o.typical_p >= 1 && o.epsilon_cutoff <= 0 && o.eta_cutoff <= 0) return;
  const LogSum sum = log_sum_row(scores.data(), static_cast<int64_t>(scores.size()));
  if (!std::isfinite(sum.shift)) return;  // nothing can be drawn
  std::vector<Candidate> all = candidates_of(o, keep, scores, sum);
  if (o.top_p < 1) keep_top_p(o.top_p, keep, sum, all);
  if (o.min_p) keep_min_p(*o.min_p, keep, all);
  if (o.typical_p < 1) keep_typical(o.typical_p, keep, all);
  if (o.epsilon_cutoff > 0) keep_probable(o.epsilon_cutoff, keep, all);
  if (o.eta_cutoff > 0) keep_above_eta(o.eta_cutoff, keep, all);
  std::fill(scores.begin(), scores.end(), kMinusInfinity);
  for (const Candidate& c : all) scores[c.token] = c.score;
}

double uniform(uint64_t seed, uint64_t source, uint64_t sequence, uint64_t step) {
  const uint64_t bits = mix(mix(mix(mix(seed) ^ source) ^ sequence) ^ step);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

int64_t draw(std::span<const float> scores, double u) {
  const auto n = static_cast<int64_t>(scores.size());
  std::vector<RowSum> sums;
  double top = kMinusInfinity;
  for (int64_t i = 0; i < n; i += kLogSumStretch) {
    sums.push_back(sum_row(scores.data() + i, std::min(kLogSumStretch, n - i)));
    check_best_score(sums.back().shift);
    top = std::max<double>(top, sums.back().shift);
  }
  if (std::isinf(top)) throw Error(Error::Kind::kInvalidArgument, "no token is left to draw: all are suppressed");
  // First the stretch that the draw falls into, then the token; weights are relative to that of the best token.
  const auto weight = [&](size_t i) { return sums[i].sum > 0 ? sums[i].sum * std::exp(sums[i].shift - top) : 0.0; };
  double rest = 0;
  for (size_t i = 0; i < sums.size(); ++i) rest += weight(i);
  rest *= u;
  const size_t begin = find_weight(sums.size(), weight, rest) * kLogSumStretch;
  const auto stretch = scores.subspan(begin, std::min<size_t>(kLogSumStretch, scores.size() - begin));
  const auto probability = [&](size_t i) { return std::exp(stretch[i] - top); };
  return static_cast<int64_t>(begin + find_weight(stretch.size(), probability, rest));
}

void check_best_score(float score) {
  if (std::isnan(score) || score > std::numeric_limits<float>::max())
    throw Error(Error::Kind::kInvalidModel, "no token can be chosen: the decoder's scores are not finite");
}

}  // namespace attune
