// What the encoders of speech models take: spectra in mel bands, as Hugging Face's feature extractors compute them.
#pragma once

#include <filesystem>
#include <span>

#include "graph/tensor.h"

namespace attune {

enum class AudioFeatureKind {
  kWhisper,  // WhisperFeatureExtractor: (1, bands, frames), log10, at most 8 below the largest
  kKaldi     // Speech2TextFeatureExtractor: (1, frames, bands), natural logarithm, each band normalised
};

// Names and meanings as in preprocessor_config.json.
struct AudioFeatureOptions {
  AudioFeatureKind kind = AudioFeatureKind::kWhisper;
  int64_t feature_size = 80;  // mel bands
  int64_t sampling_rate = 16000;
  int64_t hop_length = 160, n_fft = 400;               // samples; of kWhisper
  int64_t chunk_length = 30;                           // seconds that kWhisper's encoder takes at once
  bool normalize_means = true, normalize_vars = true;  // of kKaldi
};

// Reads preprocessor_config.json of a folder (or of the folder above it). Throws Error(kIo) where it is missing,
// Error(kUnsupported) for another feature extractor, Error(kInvalidArgument) for values that make no sense.
AudioFeatureOptions read_audio_feature_options(const std::filesystem::path& folder);

// The features of samples in [-1, 1] at the options' rate: frames = samples / hop_length for kWhisper (nothing is
// padded to chunk_length), one frame of 25 ms each 10 ms for kKaldi.
// Throws Error(kInvalidArgument) if there are fewer samples than one frame takes.
Tensor audio_features(std::span<const float> samples, const AudioFeatureOptions& options);

}  // namespace attune
