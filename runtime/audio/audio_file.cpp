#include "runtime/audio/audio_file.h"

#include <fmt/format.h>
#include <sndfile.h>
#include <soxr.h>

#include <cmath>
#include <memory>

#include "graph/error.h"

namespace attune {
namespace {

constexpr sf_count_t kFramesAtOnce = 65536;

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

[[noreturn]] void invalid(const std::filesystem::path& file, std::string_view what) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: {}", file.string(), what));
}

}  // namespace

Audio read_audio(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw Error(Error::Kind::kIo, fmt::format("{}: no such file", file.string()));
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, Close> in(sf_open(file.c_str(), SFM_READ, &info));
  if (!in) invalid(file, sf_strerror(nullptr));
  const auto channels = static_cast<size_t>(info.channels);
  Audio audio;
  audio.sampling_rate = info.samplerate;
  // A header may claim more than there is: memory follows what is read.
  std::vector<float> frames(static_cast<size_t>(kFramesAtOnce) * channels);
  while (const sf_count_t count = sf_readf_float(in.get(), frames.data(), kFramesAtOnce)) {
    for (size_t f = 0; f < static_cast<size_t>(count); ++f) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += frames[f * channels + c];
      if (!std::isfinite(sum)) invalid(file, "holds a sample that is no number");
      audio.samples.push_back(channels == 1 ? sum : sum / static_cast<float>(channels));
    }
  }
  if (sf_error(in.get()) != SF_ERR_NO_ERROR) invalid(file, sf_strerror(in.get()));
  if (audio.samples.empty()) invalid(file, "holds no sound");
  return audio;
}

std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate) {
  if (from_rate <= 0 || to_rate <= 0)
    throw Error(Error::Kind::kInvalidArgument, fmt::format("sampling rates {} and {}", from_rate, to_rate));
  if (from_rate == to_rate) return {samples.begin(), samples.end()};
  const double ratio = static_cast<double>(to_rate) / static_cast<double>(from_rate);
  std::vector<float> out(static_cast<size_t>(std::llround(static_cast<double>(samples.size()) * ratio)));
  size_t done = 0;
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  if (const soxr_error_t error =
          soxr_oneshot(static_cast<double>(from_rate), static_cast<double>(to_rate), 1, samples.data(), samples.size(),
                       nullptr, out.data(), out.size(), &done, nullptr, &quality, nullptr))
    throw Error(Error::Kind::kInvalidArgument, fmt::format("resampling from {} to {}: {}", from_rate, to_rate, error));
  out.resize(done);
  return out;
}

}  // namespace attune
