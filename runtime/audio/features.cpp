#include "runtime/audio/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

#include "graph/error.h"
#include "runtime/audio/mel_filters.h"
#include "runtime/folder.h"
#include "runtime/json_file.h"
#include "runtime/settings.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Of Kaldi's fbank with its defaults, at 16 kHz.
constexpr size_t kKaldiFrame = 400, kKaldiHop = 160, kKaldiFft = 512;
constexpr double kKaldiPreemphasis = 0.97, kKaldiScale = 32768, kKaldiLow = 20;
constexpr double kKaldiFloor = 1.192092955078125e-07;

constexpr double kWhisperFloor = 1e-10;

// |FFT|² of one frame of real samples.
class PowerSpectrum {
 public:
  explicit PowerSpectrum(size_t size)
      : fft_(size / 2, false), frame(size, 0.0), power(size / 2 + 1), spectrum_(size / 2 + 1) {}
  void run() {
    fft_.transform_real(frame.data(), spectrum_.data());
    // Packed: the real part of the first is frequency 0, its imaginary part the highest frequency.
    const auto first = spectrum_[0];
    power.front() = first.real() * first.real();
    power.back() = first.imag() * first.imag();
    for (size_t f = 1; f + 1 < power.size(); ++f) power[f] = std::norm(spectrum_[f]);
  }

 private:
  kissfft<double> fft_;

 public:
  std::vector<double> frame, power;

 private:
  std::vector<std::complex<double>> spectrum_;
};

// Index of a signal that is mirrored at both ends.
size_t mirrored(std::ptrdiff_t i, size_t size) {
  const auto last = static_cast<std::ptrdiff_t>(size) - 1;
  while (i < 0 || i > last) i = i < 0 ? -i : 2 * last - i;
  return static_cast<size_t>(i);
}

void need(size_t samples, size_t least) {
  if (samples < least)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} samples of audio: expected at least {}", samples, least));
}

Tensor whisper_features(std::span<const float> samples, const AudioFeatureOptions& o) {
  const auto size = static_cast<size_t>(o.n_fft), hop = static_cast<size_t>(o.hop_length);
  need(samples.size(), std::max(size / 2 + 1, hop));
  const auto bands = static_cast<size_t>(o.feature_size);
  const size_t frames = samples.size() / hop;
  const MelFilters mel({.scale = MelScale::kSlaney,
                        .fft_size = size,
                        .bands = bands,
                        .low = 0,
                        .high = 8000,
                        .sampling_rate = static_cast<double>(o.sampling_rate),
                        .equal_area = true});
  std::vector<double> window(size);  // Hann, periodic
  for (size_t i = 0; i < size; ++i)
    window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size));

  Tensor out = Tensor::allocate(DataType::kFloat, {1, o.feature_size, static_cast<int64_t>(frames)});
  float* values = out.mutable_data<float>();
  PowerSpectrum spectrum(size);
  std::vector<double> energy(bands);
  double largest = -1e300;
  for (size_t t = 0; t < frames; ++t) {
    const auto begin = static_cast<std::ptrdiff_t>(t * hop) - static_cast<std::ptrdiff_t>(size / 2);
    for (size_t i = 0; i < size; ++i)
      spectrum.frame[i] =
          window[i] * static_cast<double>(samples[mirrored(begin + static_cast<std::ptrdiff_t>(i), samples.size())]);
    spectrum.run();
    mel.apply(spectrum.power, energy);
    for (size_t b = 0; b < bands; ++b) {
      const double log = std::log10(std::max(energy[b], kWhisperFloor));
      largest = std::max(largest, log);
      values[b * frames + t] = static_cast<float>(log);
    }
  }
  const auto least = static_cast<float>(largest - 8);
  for (size_t i = 0; i < bands * frames; ++i) values[i] = (std::max(values[i], least) + 4) / 4;
  return out;
}

// Zero mean and unit variance of each band over time.
void normalize_bands(std::span<float> values, size_t bands, const AudioFeatureOptions& o) {
  const size_t frames = values.size() / bands;
  for (size_t b = 0; b < bands; ++b) {
    double mean = 0, square = 0;
    for (size_t t = 0; t < frames; ++t) mean += static_cast<double>(values[t * bands + b]);
    mean /= static_cast<double>(frames);
    for (size_t t = 0; t < frames; ++t) {
      const double d = static_cast<double>(values[t * bands + b]) - mean;
      square += d * d;
    }
    const double deviation = std::sqrt(square / static_cast<double>(frames));
    for (size_t t = 0; t < frames; ++t) {
      double v = static_cast<double>(values[t * bands + b]);
      if (o.normalize_means) v -= mean;
      if (o.normalize_vars) v /= deviation;
      values[t * bands + b] = static_cast<float>(v);
    }
  }
}

Tensor kaldi_features(std::span<const float> samples, const AudioFeatureOptions& o) {
  need(samples.size(), kKaldiFrame);
  const auto bands = static_cast<size_t>(o.feature_size);
  const size_t frames = 1 + (samples.size() - kKaldiFrame) / kKaldiHop;
  const auto highest = o.sampling_rate / 2;  // a whole number, as in transformers
  const MelFilters mel({.scale = MelScale::kKaldi,
                        .fft_size = kKaldiFft,
                        .bands = bands,
                        .low = kKaldiLow,
                        .high = static_cast<double>(highest),
                        .sampling_rate = static_cast<double>(o.sampling_rate),
                        .triangles_in_mel = true});
  std::vector<double> window(kKaldiFrame);  // Povey: a Hann window to the power of 0.85
  for (size_t i = 0; i < kKaldiFrame; ++i)
    window[i] = std::pow(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / (kKaldiFrame - 1)), 0.85);

  Tensor out = Tensor::allocate(DataType::kFloat, {1, static_cast<int64_t>(frames), o.feature_size});
  float* values = out.mutable_data<float>();
  PowerSpectrum spectrum(kKaldiFft);
  std::vector<double> energy(bands);
  for (size_t t = 0; t < frames; ++t) {
    const auto frame = samples.subspan(t * kKaldiHop, kKaldiFrame);
    double mean = 0;
    for (const float s : frame) mean += static_cast<double>(s) * kKaldiScale;
    mean /= kKaldiFrame;
    double before = 0;
    for (size_t i = 0; i < kKaldiFrame; ++i) {
      const double x = static_cast<double>(frame[i]) * kKaldiScale - mean;
      spectrum.frame[i] = window[i] * (x - kKaldiPreemphasis * (i == 0 ? x : before));
      before = x;
    }
    spectrum.run();
    mel.apply(spectrum.power, energy);
    for (size_t b = 0; b < bands; ++b)
      values[t * bands + b] = static_cast<float>(std::log(std::max(energy[b], kKaldiFloor)));
  }
  normalize_bands({values, frames * bands}, bands, o);
  return out;
}

void read_options(const json& config, AudioFeatureOptions& o) {
  const std::string type = setting(config, "feature_extractor_type", std::string("WhisperFeatureExtractor"));
  if (type == "Speech2TextFeatureExtractor") {
    o.kind = AudioFeatureKind::kKaldi;
    o.feature_size = setting(config, "num_mel_bins", o.feature_size);
  } else if (type == "WhisperFeatureExtractor") {
    o.feature_size = setting(config, "feature_size", o.feature_size);
  } else {
    throw Error(Error::Kind::kUnsupported, fmt::format("feature extractor '{}'", type));
  }
  o.sampling_rate = setting(config, "sampling_rate", o.sampling_rate);
  o.hop_length = setting(config, "hop_length", o.hop_length);
  o.n_fft = setting(config, "n_fft", o.n_fft);
  o.chunk_length = setting(config, "chunk_length", o.chunk_length);
  const bool normalize = setting(config, "do_ceptral_normalize", true);
  o.normalize_means = normalize && setting(config, "normalize_means", true);
  o.normalize_vars = normalize && setting(config, "normalize_vars", true);
}

}  // namespace

AudioFeatureOptions read_audio_feature_options(const fs::path& folder) {
  constexpr const char* kName = "preprocessor_config.json";
  const fs::path file = configuration_file(folder, kName);
  const auto config = read_json_object(file);
  if (!config)
    throw Error(Error::Kind::kIo, fmt::format("{}: a speech model's folder needs it", (folder / kName).string()));
  const auto invalid = [&](std::string_view what) {
    return Error(Error::Kind::kInvalidArgument, fmt::format("{}: {}", file.string(), what));
  };
  AudioFeatureOptions o;
  within(file.string(), [&] { read_options(*config, o); });
  constexpr int64_t kMost = 1 << 20;
  for (const int64_t v : {o.feature_size, o.sampling_rate, o.hop_length, o.n_fft, o.chunk_length})
    if (v < 1 || v > kMost) throw invalid("a size is out of range");
  if (o.n_fft % 2 != 0) throw invalid("n_fft must be even");
  return o;
}

Tensor audio_features(std::span<const float> samples, const AudioFeatureOptions& options) {
  return options.kind == AudioFeatureKind::kWhisper ? whisper_features(samples, options)
                                                    : kaldi_features(samples, options);
}

}  // namespace attune
