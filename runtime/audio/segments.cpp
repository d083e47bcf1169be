#include "runtime/audio/segments.h"

#include <algorithm>

namespace attune {
namespace {

constexpr int64_t kFramesPerStep = 2;

}  // namespace

WindowSegments split_window(std::span<const int64_t> tokens, int64_t first_time, int64_t frames) {
  const size_t size = tokens.size();
  const auto is_time = [&](size_t i) { return tokens[i] >= first_time; };
  std::vector<size_t> ends;  // where a segment ends: between two times
  for (size_t i = 1; i < size; ++i)
    if (is_time(i - 1) && is_time(i)) ends.push_back(i);
  WindowSegments out;
  out.seek = frames;
  if (ends.empty()) {
    int64_t stop = frames / kFramesPerStep;
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(), [&](int64_t t) { return t >= first_time; });
    if (last != tokens.rend() && *last != first_time) stop = *last - first_time;
    out.segments.push_back({0, stop, 0, size});
    return out;
  }
  const bool single_end = size >= 2 && !is_time(size - 2) && is_time(size - 1);
  if (single_end) {
    ends.push_back(size);
  } else {
    ++ends.back();  // the last segment keeps the pair
  }
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const bool pair = i + 1 == ends.size() && !single_end;
    out.segments.push_back({tokens[begin] - first_time, tokens[ends[i] - (pair ? 2 : 1)] - first_time, begin, ends[i]});
    begin = ends[i];
  }
  if (!single_end) out.seek = (tokens[begin - 2] - first_time) * kFramesPerStep;
  // A pair at the very beginning says nothing about what comes.
  if (out.seek <= 0) out.seek = frames;
  return out;
}

}  // namespace attune
