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

// Reads .wav, .flac, .ogg and what else libsndfile knows; several channels become their mean. Throws Error(kIo) where
// the file can't be read, Error(kInvalidArgument) where it isn't such a file, is damaged or holds no sound.
Audio read_audio(const std::filesystem::path& file);

// The same sound at another rate (SoX Resampler, high quality).
std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate);

}  // namespace attune
