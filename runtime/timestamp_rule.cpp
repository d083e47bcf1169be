#include "runtime/timestamp_rule.h"

#include <algorithm>
#include <limits>

#include "runtime/log_sum.h"

namespace attune {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> scores, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(scores.size());
  begin = std::clamp<int64_t>(begin, 0, size);
  end = std::clamp<int64_t>(end, begin, size);
  std::fill(scores.begin() + begin, scores.begin() + end, kMinusInfinity);
}

}  // namespace

void apply_timestamp_rule(const GenerationOptions& o, std::span<const int64_t> generated, std::span<float> scores) {
  const int64_t none = *o.no_timestamps_token_id, first = none + 1;
  const auto size = static_cast<int64_t>(scores.size());
  if (first >= size) return;
  const auto is_time = [&](size_t from_end) { return generated[generated.size() - from_end] >= first; };
  forbid(scores, none, first);

  const bool last = !generated.empty() && is_time(1);
  const bool before_last = generated.size() < 2 || is_time(2);
  if (last && before_last) forbid(scores, first, size);
  if (last && !before_last && !o.eos_token_id.empty()) forbid(scores, 0, o.eos_token_id.front());
  const auto newest = std::find_if(generated.rbegin(), generated.rend(), [&](int64_t t) { return t >= first; });
  // A time may come twice: at the end of one segment and at the beginning of the next.
  if (newest != generated.rend()) forbid(scores, first, *newest + (last && !before_last ? 0 : 1));

  if (generated.empty()) {
    forbid(scores, 0, first);
    if (o.max_initial_timestamp_index) forbid(scores, first + *o.max_initial_timestamp_index + 1, size);
  }
  const auto text = scores.first(static_cast<size_t>(first)), times = scores.subspan(static_cast<size_t>(first));
  if (log_sum_exp(times) > *std::max_element(text.begin(), text.end())) forbid(scores, 0, first);
}

}  // namespace attune
