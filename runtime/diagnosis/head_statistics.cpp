#include "runtime/diagnosis/head_statistics.h"

#include <algorithm>
#include <cmath>

namespace attune {
namespace {

std::vector<float> as_floats(const Tensor& tensor) {
  const Tensor t = tensor.to_contiguous();
  std::vector<float> out(static_cast<size_t>(t.count()));
  dispatch<float, Float16, BFloat16, double>(t.type(), [&]<class T>() {
    const T* from = t.data<T>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(from[i]);
  });
  return out;
}

// Half a unit in the last place of 1.
double precision_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x1p-11;
    case DataType::kBFloat16:
      return 0x1p-8;
    case DataType::kDouble:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

// Per head W Wᵀ of its rows of the projection (heads × width, n): cᵀ (W Wᵀ) c is the squared norm of c W.
std::vector<std::vector<float>> grams_of(const Tensor& projection, size_t heads) {
  std::vector<std::vector<float>> out(heads);
  if (!projection.defined() || static_cast<size_t>(projection.dim(0)) % heads != 0) return out;
  const auto w = as_floats(projection);
  const auto width = static_cast<size_t>(projection.dim(0)) / heads, n = static_cast<size_t>(projection.dim(1));
  for (size_t h = 0; h < heads; ++h) {
    out[h].resize(width * width);
    for (size_t a = 0; a < width; ++a)
      for (size_t b = 0; b <= a; ++b) {
        float sum = 0;
        for (size_t i = 0; i < n; ++i) sum += w[(h * width + a) * n + i] * w[(h * width + b) * n + i];
        out[h][a * width + b] = out[h][b * width + a] = sum;
      }
  }
  return out;
}

double squared_norm(const float* c, size_t width, const std::vector<float>& gram) {
  double sum = 0;
  for (size_t a = 0; a < width; ++a) {
    if (gram.size() != width * width) {
      sum += static_cast<double>(c[a]) * c[a];
      continue;
    }
    double inner = 0;
    for (size_t b = 0; b < width; ++b) inner += static_cast<double>(gram[a * width + b]) * c[b];
    sum += inner * c[a];
  }
  return std::max(0.0, sum);
}

double correlation(double n, double x, double y, double xx, double yy, double xy) {
  const double covariance = n * xy - x * y, spread = (n * xx - x * x) * (n * yy - y * y);
  return spread <= 1e-12 ? 0 : covariance / std::sqrt(spread);
}

}  // namespace

void HeadStatistics::add_row(Head& head, PerSource& source, const Row& row, bool self_attention) const {
  double entropy = 0, largest = 0, sum = 0, padding = 0, centre = 0;
  size_t visible = 0, padded = 0;
  source.received.resize(std::max(source.received.size(), row.keys), 0.0);
  for (size_t k = 0; k < row.keys; ++k) {
    const double w = row.weights[k];
    const bool hidden = row.hidden && (*row.hidden)[k];
    padded += hidden ? 1 : 0;
    visible += !hidden || w > 0 ? 1 : 0;
    padding += hidden ? w : 0;
    entropy -= w > 0 ? w * std::log(w) : 0;
    largest = std::max(largest, w);
    sum += w;
    centre += w * static_cast<double>(k);
    source.received[k] += w;
  }
  const auto t = static_cast<double>(row.position);
  source.queries += 1;
  source.t += t;
  source.c += centre;
  source.tt += t * t;
  source.cc += centre * centre;
  source.tc += t * centre;
  head.padded_queries += padded > 0 ? 1 : 0;
  head.padding += padding;
  if (visible < 2) return;
  ++head.queries;
  head.entropy += entropy / std::log(static_cast<double>(visible));
  head.largest += largest;
  // All but the largest together: each of them is then below the precision too.
  head.concentrated += largest > 0.5 && sum - largest <= row.precision * static_cast<double>(row.keys) ? 1 : 0;
  if (!self_attention) return;
  const size_t p = row.position;
  if (p < row.keys) head.self += row.weights[p];
  if (p > 0 && p - 1 < row.keys) head.previous += row.weights[p - 1];
  if (p + 1 < row.keys) head.next += row.weights[p + 1];
}

void HeadStatistics::add(const AttentionCall& call) {
  const Tensor& shape = call.weights;
  const auto rows = static_cast<size_t>(shape.dim(0)), heads = static_cast<size_t>(shape.dim(1));
  const auto queries = static_cast<size_t>(shape.dim(2)), keys = static_cast<size_t>(shape.dim(3));
  const auto weights = as_floats(call.weights), context = as_floats(call.context);
  const auto mask = call.source_mask.to_int64();
  const auto length = static_cast<size_t>(call.source_mask.dim(1));
  Layer& layer = layers_[{!call.encoder, call.tap.kind, call.tap.layer}];
  if (layer.heads.empty()) {
    layer.heads.resize(heads);
    layer.grams = grams_of(call.tap.projection, heads);
  }
  const bool over_source = keys == length && (call.encoder || call.tap.kind == AttentionKind::kCross);
  const size_t width = rows * queries * heads == 0 ? 0 : context.size() / (rows * queries * heads);
  const bool split = call.context.rank() == 4;  // (rows, heads, queries, width)
  for (size_t r = 0; r < rows; ++r) {
    const size_t source = call.sources[r];
    std::vector<bool> hidden(over_source ? keys : 0);
    for (size_t k = 0; k < hidden.size(); ++k)
      hidden[k] = mask[r * length + k] == 0 ||
                  (source < is_padding_.size() && is_padding_[source].size() == keys && is_padding_[source][k]);
    if (call.tap.kind == AttentionKind::kCross) hidden_[source] = hidden;
    const bool self = call.tap.kind == AttentionKind::kSelf;
    // Each query of a decoder counts once: without caches those of earlier calls come again.
    size_t& asked = layer.asked[source];
    const size_t known = !call.encoder && queries > asked ? asked : 0;
    for (size_t q = known; q < queries; ++q) {
      if (call.encoder && q < hidden.size() && hidden[q]) continue;
      const size_t position = call.encoder ? q : asked++;
      const bool causal = self && !call.encoder && keys >= queries;
      const size_t seen = causal ? keys - queries + q + 1 : keys;
      for (size_t h = 0; h < heads; ++h) {
        Head& head = layer.heads[h];
        const float* row = weights.data() + ((r * heads + h) * queries + q) * keys;
        PerSource& statistics = head.sources[source];
        add_row(head, statistics, {row, seen, position, over_source ? &hidden : nullptr, precision_of(shape.type())},
                self);
        // The last query is the one that gives a token of the output.
        if (call.tap.kind == AttentionKind::kCross && q + 1 == queries) {
          statistics.covered.resize(std::max(statistics.covered.size(), keys), 0.0);
          for (size_t k = 0; k < keys; ++k) statistics.covered[k] += static_cast<double>(row[k]);
        }
        const size_t at = split ? (r * heads + h) * queries + q : (r * queries + q) * heads + h;
        head.squares += squared_norm(context.data() + at * width, width, layer.grams[h]);
        ++head.asked;
      }
    }
  }
}

std::vector<HeadDiagnosis> HeadStatistics::results(const DiagnosisBounds& bounds) const {
  std::vector<HeadDiagnosis> out;
  for (const auto& [key, layer] : layers_) {
    double squares = 0;
    for (const Head& h : layer.heads) squares += h.squares / static_cast<double>(std::max<size_t>(1, h.asked));
    squares /= static_cast<double>(layer.heads.size());
    for (size_t i = 0; i < layer.heads.size(); ++i) {
      const Head& h = layer.heads[i];
      HeadDiagnosis d;
      d.encoder = !std::get<0>(key);
      d.kind = std::get<1>(key);
      d.layer = std::get<2>(key);
      d.head = i;
      d.queries = h.queries;
      const double n = static_cast<double>(std::max<size_t>(1, h.queries));
      d.entropy = h.entropy / n;
      d.concentrated = h.concentrated / n;
      d.largest = h.largest / n;
      d.self = h.self / n;
      d.previous = h.previous / n;
      d.next = h.next / n;
      if (h.padded_queries > 0) d.padding = h.padding / static_cast<double>(h.padded_queries);
      const double own = h.squares / static_cast<double>(std::max<size_t>(1, h.asked));
      d.contribution = squares > 0 ? std::sqrt(own / squares) : 0;
      for (const auto& [source, s] : h.sources) {
        const double share = 1.0 / static_cast<double>(h.sources.size());
        d.diagonal += share * correlation(s.queries, s.t, s.c, s.tt, s.cc, s.tc);
        if (!s.received.empty())
          d.one_position += share * *std::max_element(s.received.begin(), s.received.end()) / s.queries;
      }
      if (h.queries > 0) {
        if (d.entropy > bounds.uniform) d.symptoms.push_back(HeadSymptom::kUniform);
        if (d.concentrated > bounds.concentrated) d.symptoms.push_back(HeadSymptom::kConcentrated);
      }
      if (d.padding && *d.padding > bounds.padding) d.symptoms.push_back(HeadSymptom::kPadding);
      if (d.contribution < bounds.dead) d.symptoms.push_back(HeadSymptom::kDead);
      out.push_back(std::move(d));
    }
  }
  return out;
}

std::vector<std::vector<double>> HeadStatistics::coverage() const {
  std::vector<std::vector<double>> out(is_padding_.size());
  double heads = 0;
  for (const auto& [key, layer] : layers_) {
    if (std::get<1>(key) != AttentionKind::kCross) continue;
    heads += static_cast<double>(layer.heads.size());
    for (const Head& h : layer.heads)
      for (const auto& [source, s] : h.sources) {
        if (source >= out.size()) out.resize(source + 1);
        out[source].resize(std::max(out[source].size(), s.covered.size()), 0.0);
        for (size_t k = 0; k < s.covered.size(); ++k) out[source][k] += s.covered[k];
      }
  }
  for (size_t source = 0; source < out.size(); ++source) {
    const auto hidden = hidden_.find(source);
    std::vector<double> real;
    for (size_t k = 0; k < out[source].size(); ++k)
      if (hidden == hidden_.end() || k >= hidden->second.size() || !hidden->second[k])
        real.push_back(out[source][k] / std::max(1.0, heads));
    out[source] = std::move(real);
  }
  return out;
}

}  // namespace attune
