// Where the time of a model goes as its sources and outputs grow. Internal to the diagnosis.
#pragma once

#include "runtime/diagnosis/diagnosis.h"

namespace attune {

// Times the folder on sources of growing length, made of the tokens of `ids` over and over; without ids (audio,
// pictures), on the one source in `first`, as it is.
Regime measure_regime(const std::filesystem::path& folder, const TensorMap& first, const std::vector<int64_t>& ids,
                      const DiagnosisOptions& options);

// The length x > 0 at which `attention`, fitted by a line over `lengths` in relation to `rest`, reaches it; nothing if
// the relation doesn't grow. Needs two different lengths.
std::optional<double> crossing(const std::vector<double>& lengths, const std::vector<double>& attention,
                               const std::vector<double>& rest);

}  // namespace attune
