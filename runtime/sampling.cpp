#include "runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "graph/error.h"

namespace attune {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float maximum(std::span<const float> scores) { return *std::max_element(scores.begin(), scores.end()); }

void keep_top_k(size_t k, std::span<float> scores) {
  if (k >= scores.size()) return;
  std::vector<float> sorted(scores.begin(), scores.end());
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (float& s : scores)
    if (s < *kth) s = kMinusInfinity;
}

std::vector<size_t> by_score(std::span<const float> scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

std::vector<double> softmax(std::span<const float> scores) {
  const double top = maximum(scores);
  std::vector<double> p(scores.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp(static_cast<double>(scores[i]) - top);
  for (double& x : p) x /= sum;
  return p;
}

// Keeps the smallest set of most probable tokens whose probability reaches top_p.
void keep_top_p(double top_p, size_t keep, std::span<float> scores) {
  const auto p = softmax(scores);
  const auto order = by_score(scores);
  double tail = 1;  // probability of this token and all less probable ones
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= keep && tail <= 1 - top_p) scores[order[i]] = kMinusInfinity;
    tail -= p[order[i]];
  }
}

void keep_min_p(double min_p, size_t keep, std::span<float> scores) {
  const auto p = softmax(scores);
  const auto order = by_score(scores);
  const double threshold = min_p * p[order[0]];
  for (size_t i = keep; i < order.size(); ++i)
    if (p[order[i]] < threshold) scores[order[i]] = kMinusInfinity;
}

double entropy(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum -= x > 0 ? x * std::log(x) : 0;
  return sum;
}

// Keeps the tokens whose information is nearest to the mean, until their probability reaches typical_p.
void keep_typical(double typical_p, size_t keep, std::span<float> scores) {
  const auto p = softmax(scores);
  const double mean = entropy(p);
  std::vector<double> distance;
  for (const double x : p) distance.push_back(x > 0 ? std::abs(-std::log(x) - mean) : INFINITY);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance[a] < distance[b]; });
  double sum = 0;
  size_t last = 0;  // in `order`, of those that stay
  for (; last + 1 < order.size(); ++last) {
    sum += p[order[last]];
    if (sum >= typical_p) break;
  }
  const double farthest = distance[order[last]];
  for (size_t i = keep; i < order.size(); ++i)
    if (distance[order[i]] > farthest) scores[order[i]] = kMinusInfinity;
}

// Tokens of a probability below `least` fall away.
void cut_off(double least, const std::vector<double>& p, size_t keep, std::span<float> scores) {
  const auto order = by_score(scores);
  for (size_t i = keep; i < order.size(); ++i)
    if (p[order[i]] < least) scores[order[i]] = kMinusInfinity;
}

void keep_above_epsilon(double epsilon, size_t keep, std::span<float> scores) {
  cut_off(epsilon, softmax(scores), keep, scores);
}

// The more certain the distribution is, the higher lies the bound.
void keep_above_eta(double eta, size_t keep, std::span<float> scores) {
  const auto p = softmax(scores);
  cut_off(std::min(eta, std::sqrt(eta) * std::exp(-entropy(p))), p, keep, scores);
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
  if (o.top_p < 1) keep_top_p(o.top_p, keep, scores);
  if (o.min_p) keep_min_p(*o.min_p, keep, scores);
  if (o.typical_p < 1) keep_typical(o.typical_p, keep, scores);
  if (o.epsilon_cutoff > 0) keep_above_epsilon(o.epsilon_cutoff, keep, scores);
  if (o.eta_cutoff > 0) keep_above_eta(o.eta_cutoff, keep, scores);
}

double uniform(uint64_t seed, uint64_t source, uint64_t sequence, uint64_t step) {
  const uint64_t bits = mix(mix(mix(mix(seed) ^ source) ^ sequence) ^ step);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

int64_t draw(std::span<const float> scores, double u) {
  const auto p = softmax(scores);
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] <= 0) continue;
    last = i;
    sum += p[i];
    if (sum > u) break;
  }
  if (!(sum > 0)) throw Error(Error::Kind::kInvalidArgument, "no token is left to draw: all are suppressed");
  return static_cast<int64_t>(last);
}

}  // namespace attune
