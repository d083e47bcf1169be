#include "runtime/audio/mel_filters.h"

#include <algorithm>
#include <cmath>

namespace attune {
namespace {

// Slaney: 3 mel for 200 Hz up to 15 mel at 1 kHz, then 27 mel for a factor of 6.4.
constexpr double kLinearHertz = 1000, kLinearMel = 15, kMelPerHertz = 3.0 / 200.0;
const double kMelPerLog = 27.0 / std::log(6.4);

double to_mel(double hertz, MelScale scale) {
  if (scale == MelScale::kKaldi) return 1127 * std::log(1 + hertz / 700);
  if (hertz < kLinearHertz) return hertz * kMelPerHertz;
  return kLinearMel + std::log(hertz / kLinearHertz) * kMelPerLog;
}

double to_hertz(double mel, MelScale scale) {
  if (scale == MelScale::kKaldi) return 700 * (std::exp(mel / 1127) - 1);
  if (mel < kLinearMel) return mel / kMelPerHertz;
  return kLinearHertz * std::exp((mel - kLinearMel) / kMelPerLog);
}

}  // namespace

MelFilters::MelFilters(const MelFilterOptions& o) {
  const double low = to_mel(o.low, o.scale), high = to_mel(o.high, o.scale);
  std::vector<double> corners(o.bands + 2), hertz(o.bands + 2);
  for (size_t i = 0; i < corners.size(); ++i) {
    corners[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(o.bands + 1);
    hertz[i] = to_hertz(corners[i], o.scale);
  }
  if (!o.triangles_in_mel) corners = hertz;
  const size_t frequencies = o.fft_size / 2 + 1;
  for (size_t b = 0; b < o.bands; ++b) {
    Band band;
    const double height = o.equal_area ? 2 / (hertz[b + 2] - hertz[b]) : 1;
    for (size_t f = 0; f < frequencies; ++f) {
      const double at = static_cast<double>(f) * o.sampling_rate / static_cast<double>(o.fft_size);
      const double x = o.triangles_in_mel ? to_mel(at, o.scale) : at;
      const double up = (x - corners[b]) / (corners[b + 1] - corners[b]);
      const double down = (corners[b + 2] - x) / (corners[b + 2] - corners[b + 1]);
      const double weight = height * std::max(0.0, std::min(up, down));
      if (weight == 0 && band.weights.empty()) continue;
      if (band.weights.empty()) band.begin = f;
      band.weights.push_back(weight);
    }
    while (!band.weights.empty() && band.weights.back() == 0) band.weights.pop_back();
    bands_.push_back(std::move(band));
  }
}

void MelFilters::apply(std::span<const double> power, std::span<double> out) const {
  for (size_t b = 0; b < bands_.size(); ++b) {
    double sum = 0;
    for (size_t i = 0; i < bands_[b].weights.size(); ++i) sum += bands_[b].weights[i] * power[bands_[b].begin + i];
    out[b] = sum;
  }
}

}  // namespace attune
