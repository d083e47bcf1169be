// A sound that tests and the scripts that recorded their expected values make by the same formula.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace attune::test {

// A rising tone, a second tone from 0.2 s on, and noise, at 16 kHz.
inline std::vector<float> made_up_sound(size_t samples) {
  std::vector<float> x(samples);
  uint64_t noise = 12345;
  for (size_t i = 0; i < x.size(); ++i) {
    noise = (noise * 1103515245 + 12345) % (1U << 31);
    const double t = static_cast<double>(i) / 16000, turn = 2 * std::numbers::pi;
    double v = 0.4 * std::sin(turn * (200 * t + 1500 * t * t)) + (t > 0.2 ? 0.2 * std::sin(turn * 3000 * t) : 0);
    v += 0.02 * (static_cast<double>(noise) / (1U << 31) - 0.5);
    x[i] = static_cast<float>(v);
  }
  return x;
}

}  // namespace attune::test
