#include "runtime/picture/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/error.h"

namespace attune {

Colour colour_of(float weight) {
  const auto mix = [&](int from, int to) {
    return static_cast<int>(std::lround(static_cast<float>(from) + weight * static_cast<float>(to - from)));
  };
  return {mix(255, 8), mix(255, 48), mix(255, 107)};
}

void check(const AlignmentPicture& p) {
  if (p.heads.empty()) throw Error(Error::Kind::kInvalidArgument, "an alignment without weights");
  for (const AlignmentHead& h : p.heads)
    if (h.weights.size() != p.rows.size() * p.columns.size())
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("{} weights for {} rows and {} columns in '{}'", h.weights.size(), p.rows.size(),
                              p.columns.size(), h.name));
}

float weight(const AlignmentPicture& p, size_t head, size_t row, size_t column) {
  const float w = p.heads.at(head).weights[row * p.columns.size() + column];
  return std::isfinite(w) ? std::clamp(w, 0.0F, 1.0F) : 0.0F;
}

std::string title_of(const AlignmentPicture& p, size_t head) {
  return p.title.empty() ? p.heads.at(head).name : p.title + ", " + p.heads.at(head).name;
}

}  // namespace attune
