#include "runtime/token_inputs.h"

#include <algorithm>

namespace attune {

TensorMap padded_inputs(const std::vector<std::vector<int64_t>>& rows, int64_t pad) {
  size_t width = 0;
  for (const auto& r : rows) width = std::max(width, r.size());
  std::vector<int64_t> ids, mask;
  for (const auto& r : rows) {
    ids.insert(ids.end(), r.begin(), r.end());
    ids.resize(ids.size() + width - r.size(), pad);
    mask.insert(mask.end(), r.size(), 1);
    mask.resize(mask.size() + width - r.size(), 0);
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  return {{"input_ids", Tensor::from<int64_t>(shape, ids)}, {"attention_mask", Tensor::from<int64_t>(shape, mask)}};
}

std::vector<std::vector<int64_t>> source_tokens(const TensorMap& inputs) {
  const auto ids = inputs.find("input_ids");
  std::vector<std::vector<int64_t>> out;
  if (ids == inputs.end() || ids->second.tensor().rank() != 2) return out;
  const Tensor& t = ids->second.tensor();
  const auto values = t.to_int64();
  const auto mask = inputs.find("attention_mask");
  const auto kept = mask == inputs.end() ? std::vector<int64_t>(values.size(), 1) : mask->second.tensor().to_int64();
  for (int64_t r = 0; r < t.dim(0); ++r) {
    out.emplace_back();
    for (int64_t c = 0; c < t.dim(1); ++c) {
      const auto i = static_cast<size_t>(r * t.dim(1) + c);
      if (kept[i] != 0) out.back().push_back(values[i]);
    }
  }
  return out;
}

}  // namespace attune
