// Segments of speech out of the tokens of one window. Internal to the transcriber.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attune {

// Times in steps of 20 ms from the window's beginning; tokens [begin, end) of the window.
struct WindowSegment {
  int64_t start = 0, stop = 0;
  size_t begin = 0, end = 0;
};

struct WindowSegments {
  std::vector<WindowSegment> segments;
  int64_t seek = 0;  // frames of 10 ms by which the next window begins later
};

// `tokens`: those behind the prompt, without the end of sequence; ids from `first_time` on are times. `frames`: of
// sound in this window. What follows the last pair of times is heard again in the next window, unless one time alone
// ends it.
WindowSegments split_window(std::span<const int64_t> tokens, int64_t first_time, int64_t frames);

}  // namespace attune
