// Sound from files.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

namespace attune {

// One channel; samples in [-1, 1].
struct Audio {
  std::vector<float> samples;
  int64_t sampling_rate = 0;  // per second
  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(sampling_rate); }
};

// Of sound that people hear; what lies outside is a damaged header.
constexpr int64_t kLeastSamplingRate = 1000, kMostSamplingRate = 1'000'000;

// Reads .wav, .flac, .ogg and what else libsndfile knows; several channels become their mean. Throws Error(kIo) where
// the file can't be read, Error(kInvalidArgument) where it isn't such a file, is damaged, holds less
// than its header promises, or no sound.
Audio read_audio(const std::filesystem::path& file);

// The same sound at another rate (SoX Resampler, high quality). Throws Error(kInvalidArgument) for rates outside of the
// above.
std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate);

}  // namespace attune
