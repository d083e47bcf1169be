#include "runtime/alignment_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace attune {

void AlignmentStore::start(AlignmentRequest request, size_t positions) {
  request_ = std::move(request);
  positions_ = positions;
  steps_.clear();
}

// (rows, positions), (rows, queries, positions) or (rows, heads, queries, positions): the last query counts.
void AlignmentStore::add_layer(Step& step, const Tensor& weights, size_t number, bool averaged) const {
  const Tensor t = weights.to_contiguous();
  const auto heads = static_cast<size_t>(t.rank() == 4 ? t.dim(1) : 1);
  const auto queries = static_cast<size_t>(t.rank() == 2 ? 1 : t.dim(t.rank() - 2));
  if (static_cast<size_t>(t.shape().back()) != positions_ || static_cast<size_t>(t.dim(0)) != step.rows)
    throw Error(Error::Kind::kUnsupported,
                fmt::format("alignments: expected weights of {} rows over the source's {} positions in layer {} of "
                            "cross-attention, got shape {}",
                            step.rows, positions_, number, t.shape().to_string()));
  Layer layer{number, heads, averaged, std::vector<float>(step.rows * heads * positions_)};
  if (queries > 0)
    dispatch<float, Float16, BFloat16, double>(t.type(), [&]<class T>() {
      const T* from = t.data<T>();
      for (size_t i = 0; i < step.rows * heads; ++i)
        for (size_t p = 0; p < positions_; ++p)
          layer.weights[i * positions_ + p] = static_cast<float>(from[((i + 1) * queries - 1) * positions_ + p]);
    });
  step.layers.push_back(std::move(layer));
}

bool AlignmentStore::same_layers(const Step& a, const Step& b) {
  return std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
                    [](const Layer& x, const Layer& y) { return x.layer == y.layer && x.heads == y.heads; });
}

void AlignmentStore::check_heads(const Step& step) const {
  for (const Layer& layer : step.layers) {
    bool selected = false;
    for (const int64_t head : request_.which.heads_of(layer.layer, step.layer_count, selected))
      if (head < 0 || static_cast<size_t>(head) >= layer.heads)
        throw Error(
            Error::Kind::kInvalidArgument,
            fmt::format("alignment of head {}: layer {} has {} heads, counted from 0", head, layer.layer, layer.heads));
  }
}

void AlignmentStore::add(const DecoderPlans::Part& part, const std::vector<Datum>& outputs, size_t rows) {
  Step step{rows, part.tapped.cross_layers, {}};
  for (const AttentionTap& tap : part.tapped.taps)
    if (tap.kind == AttentionKind::kCross) add_layer(step, outputs[tap.weights].tensor(), tap.layer, tap.averaged);
  const bool tapped = !step.layers.empty();
  for (const size_t o : part.ports.others) {
    const Datum& d = outputs[o];
    if (tapped || d.kind() != Datum::Kind::kTensor) continue;
    const Tensor& t = d.tensor();
    if (t.rank() >= 2 && t.rank() <= 4 && static_cast<size_t>(t.shape().back()) == positions_ &&
        static_cast<size_t>(t.dim(0)) == rows && is_float(t.type()))
      add_layer(step, t, step.layers.size(), false);
  }
  if (!tapped) step.layer_count = step.layers.size();
  request_.which.check(step.layer_count);
  check_heads(step);
  if (!steps_.empty() && !same_layers(steps_[0], step))
    throw Error(Error::Kind::kUnsupported,
                fmt::format("alignments: the first step gives weights of {} layers, this one of {}, or of other heads",
                            steps_[0].layers.size(), step.layers.size()));
  steps_.push_back(std::move(step));
}

std::vector<float> AlignmentStore::mean(size_t step, size_t row) const {
  if (!request_.mean || step >= steps_.size() || steps_[step].layers.empty()) return {};
  std::vector<float> sum(positions_, 0.0F);
  const auto& layers = steps_[step].layers;
  size_t count = 0;
  for (const Layer& layer : layers) {
    bool selected = false;
    std::vector<int64_t> heads = request_.which.heads_of(layer.layer, steps_[step].layer_count, selected);
    for (int64_t h = 0; selected && heads.empty() && h < static_cast<int64_t>(layer.heads); ++h) heads.push_back(h);
    if (!selected) continue;
    for (const int64_t h : heads) {
      const float* from = layer.weights.data() + (row * layer.heads + static_cast<size_t>(h)) * positions_;
      for (size_t p = 0; p < positions_; ++p) sum[p] += from[p];
    }
    count += heads.size();
  }
  for (float& x : sum) x /= static_cast<float>(std::max<size_t>(1, count));
  return sum;
}

std::vector<HeadWeights> AlignmentStore::heads(size_t step, size_t row) const {
  std::vector<HeadWeights> out;
  if (!request_.heads || step >= steps_.size()) return out;
  for (const Layer& layer : steps_[step].layers)
    for (size_t h = 0; !layer.averaged && h < layer.heads; ++h) {
      const auto begin = layer.weights.begin() + static_cast<std::ptrdiff_t>((row * layer.heads + h) * positions_);
      out.push_back({layer.layer, h, {begin, begin + static_cast<std::ptrdiff_t>(positions_)}});
    }
  return out;
}

}  // namespace attune
