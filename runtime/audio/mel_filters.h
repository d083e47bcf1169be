// From frequencies to mel bands. Internal to the features of audio.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attune {

// kSlaney: linear below 1 kHz, logarithmic above (Auditory Toolbox); kKaldi: 1127 ln(1 + f / 700).
enum class MelScale { kSlaney, kKaldi };

struct MelFilterOptions {
  MelScale scale = MelScale::kSlaney;
  size_t fft_size = 400, bands = 80;
  double low = 0, high = 8000, sampling_rate = 16000;  // Hz
  bool equal_area = false;                             // each triangle's height is 2 / its width in Hz
  bool triangles_in_mel = false;                       // edges are straight over mel, not over Hz
};

// Overlapping triangles whose corners are equally spaced in mel.
class MelFilters {
 public:
  explicit MelFilters(const MelFilterOptions& options);
  size_t bands() const { return bands_.size(); }
  // `power` of each of fft_size / 2 + 1 frequencies to `out`, one value for each band.
  void apply(std::span<const double> power, std::span<double> out) const;

 private:
  struct Band {
    size_t begin = 0;
    std::vector<double> weights;  // of frequencies from `begin`
  };
  std::vector<Band> bands_;
};

}  // namespace attune
