#include "runtime/audio/audio_file.h"

#include <fmt/format.h>
#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "graph/error.h"
#include "runtime/audio/sound_bytes.h"

namespace attune {
namespace {

constexpr sf_count_t kSamplesAtOnce = 65536;

std::string expected_rate(int64_t rate) {
  return fmt::format("expected a sampling rate of {} to {} Hz, found {}", kLeastSamplingRate, kMostSamplingRate, rate);
}
bool sensible(int64_t rate) { return rate >= kLeastSamplingRate && rate <= kMostSamplingRate; }

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

[[noreturn]] void invalid(const std::filesystem::path& file, std::string_view what) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: {}", file.string(), what));
}

[[noreturn]] void truncated(const std::filesystem::path& file, uint64_t held, uint64_t promised,
                            std::string_view unit) {
  invalid(file,
          fmt::format("truncated: holds {} of the {} {} of sound that its header promises", held, promised, unit));
}

// Frames that FLAC and the like promise; of MP3 they are estimated.
bool counts_frames(const SF_INFO& info) {
  return (info.format & SF_FORMAT_TYPEMASK) != SF_FORMAT_MPEG && info.frames < SF_COUNT_MAX;
}

}  // namespace

Audio read_audio(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw Error(Error::Kind::kIo, fmt::format("{}: no such file", file.string()));
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, Close> in(sf_open(file.c_str(), SFM_READ, &info));
  if (!in) invalid(file, sf_strerror(nullptr));
  if (!sensible(info.samplerate)) invalid(file, expected_rate(info.samplerate));
  if (const auto bytes = sound_bytes(file); bytes && bytes->held < bytes->promised)
    truncated(file, bytes->held, bytes->promised, "bytes");
  const auto channels = static_cast<size_t>(info.channels);
  const sf_count_t at_once = std::max<sf_count_t>(1, kSamplesAtOnce / info.channels);
  Audio audio;
  audio.sampling_rate = info.samplerate;
  // A header may claim more than there is: memory follows what is read.
  std::vector<float> frames(static_cast<size_t>(at_once) * channels);
  while (const sf_count_t count = sf_readf_float(in.get(), frames.data(), at_once)) {
    for (size_t f = 0; f < static_cast<size_t>(count); ++f) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += frames[f * channels + c];
      if (!std::isfinite(sum)) invalid(file, "holds a sample that is no number");
      audio.samples.push_back(channels == 1 ? sum : sum / static_cast<float>(channels));
    }
  }
  if (sf_error(in.get()) != SF_ERR_NO_ERROR) invalid(file, sf_strerror(in.get()));
  if (audio.samples.empty()) invalid(file, "holds no sound");
  if (counts_frames(info) && audio.samples.size() < static_cast<uint64_t>(info.frames))
    truncated(file, audio.samples.size(), static_cast<uint64_t>(info.frames), "frames");
  return audio;
}

std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate) {
  for (const int64_t rate : {from_rate, to_rate})
    if (!sensible(rate)) throw Error(Error::Kind::kInvalidArgument, expected_rate(rate));
  if (from_rate == to_rate) return {samples.begin(), samples.end()};
  const double ratio = static_cast<double>(to_rate) / static_cast<double>(from_rate);
  std::vector<float> out(static_cast<size_t>(std::llround(static_cast<double>(samples.size()) * ratio)));
  if (out.empty()) return out;  // soxr needs room for a sample
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
