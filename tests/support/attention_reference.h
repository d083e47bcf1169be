// ai.attune::Attention in float64, written from its formulas and from nothing else.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace attune::test {

// A row-major array of doubles; an empty shape with no values: not given.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool given = false;

  Array() = default;
  Array(std::vector<int64_t> s, double fill) : shape(std::move(s)), given(true) {
    size_t n = 1;
    for (const auto d : shape) n *= static_cast<size_t>(d);
    values.assign(n, fill);
  }
  static Array of(const Tensor& t) {
    Array a;
    if (!t.defined()) return a;
    a.given = true;
    a.shape.assign(t.shape().begin(), t.shape().end());
    if (t.type() == DataType::kBool) {
      for (const int64_t v : t.to_int64()) a.values.push_back(static_cast<double>(v));
    } else {
      a.values = t.to_double();
    }
    return a;
  }
  template <class... I>
  double& operator()(I... index) {
    size_t flat = 0, axis = 0;
    ((flat = flat * static_cast<size_t>(shape[axis++]) + static_cast<size_t>(index)), ...);
    return values[flat];
  }
};

struct ReferenceInputs {
  Array query, key, value, w_query, w_key, w_value, b_query, b_key, b_value, mask, key_lengths, past_key, past_value,
      w_score, b_score, position, query_position;
  bool mask_is_bool = false;
};

struct ReferenceAttributes {
  int64_t num_heads = 1, num_kv_heads = 1;
  std::string score = "scaled_dot", alignment = "soft", empty_row = "zero", weights_output = "normalized";
  std::optional<double> scale;
  double softcap = 0;
  bool causal = false;
  int64_t window_left = -1, window_right = -1, chunk = 1;
};

struct ReferenceOutputs {
  Array context, present_key, present_value, weights, next_position;
};

inline Array reference_project(Array x, Array w, Array b) {
  if (!w.given && !b.given) return x;
  const int64_t columns = w.given ? w.shape[1] : x.shape[2];
  Array y({x.shape[0], x.shape[1], columns}, 0);
  for (int64_t i = 0; i < x.shape[0]; ++i)
    for (int64_t t = 0; t < x.shape[1]; ++t)
      for (int64_t j = 0; j < columns; ++j) {
        double sum = b.given ? b(j) : 0;
        if (w.given) {
          for (int64_t d = 0; d < x.shape[2]; ++d) sum += x(i, t, d) * w(d, j);
        } else {
          sum += x(i, t, j);
        }
        y(i, t, j) = sum;
      }
  return y;
}

// (B, T, heads*width) as (B, heads, T, width); four dimensions stay.
inline Array reference_split(Array x, int64_t heads) {
  if (x.shape.size() == 4) return x;
  const int64_t width = x.shape[2] / heads;
  Array y({x.shape[0], heads, x.shape[1], width}, 0);
  for (int64_t b = 0; b < x.shape[0]; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < x.shape[1]; ++t)
        for (int64_t e = 0; e < width; ++e) y(b, h, t, e) = x(b, t, h * width + e);
  return y;
}

inline Array reference_append(Array past, Array added) {
  if (!past.given) return added;
  const int64_t old = past.shape[2];
  Array y({added.shape[0], added.shape[1], old + added.shape[2], added.shape[3]}, 0);
  for (int64_t b = 0; b < y.shape[0]; ++b)
    for (int64_t g = 0; g < y.shape[1]; ++g)
      for (int64_t t = 0; t < y.shape[2]; ++t)
        for (int64_t e = 0; e < y.shape[3]; ++e) y(b, g, t, e) = t < old ? past(b, g, t, e) : added(b, g, t - old, e);
  return y;
}

class AttentionReference {
 public:
  AttentionReference(ReferenceAttributes a, ReferenceInputs in) : a_(std::move(a)), in_(std::move(in)) {}

  ReferenceOutputs run() {
    const Array key_input = in_.key.given ? in_.key : in_.query;
    const Array value_input = in_.value.given ? in_.value : key_input;
    const bool split = in_.query.shape.size() == 4;
    q_ = reference_split(reference_project(in_.query, in_.w_query, in_.b_query), a_.num_heads);
    const Array k = reference_split(reference_project(key_input, in_.w_key, in_.b_key), a_.num_kv_heads);
    const Array v = reference_split(reference_project(value_input, in_.w_value, in_.b_value), a_.num_kv_heads);
    k_ = reference_append(in_.past_key, k);
    v_ = reference_append(in_.past_value, v);
    batch_ = q_.shape[0], heads_ = q_.shape[1], queries_ = q_.shape[2], keys_ = k_.shape[2], width_ = v_.shape[3];
    past_ = in_.past_key.given ? in_.past_key.shape[2] : 0;

    ReferenceOutputs out;
    out.present_key = k_;
    out.present_value = v_;
    Array context({batch_, heads_, queries_, width_}, 0);
    out.weights = Array({batch_, heads_, queries_, keys_}, 0);
    out.next_position = Array({batch_, heads_}, 0);
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t h = 0; h < heads_; ++h) {
        int64_t position = in_.position.given ? static_cast<int64_t>(in_.position(b, h)) : 0;
        for (int64_t t = 0; t < queries_; ++t) row(b, h, t, position, context, out.weights);
        out.next_position(b, h) = static_cast<double>(std::min(position, keys_));
      }
    out.context = split ? context : merge(context);
    if (a_.weights_output == "head_mean") out.weights = head_mean(out.weights);
    return out;
  }

 private:
  static constexpr double kInf = std::numeric_limits<double>::infinity();

  double raw_score(int64_t b, int64_t h, int64_t t, int64_t i) {
    const int64_t g = h / (heads_ / k_.shape[1]), e_count = q_.shape[3];
    double s = 0;
    if (a_.score == "general") {
      for (int64_t e = 0; e < e_count; ++e)
        for (int64_t f = 0; f < k_.shape[3]; ++f) s += q_(b, h, t, e) * in_.w_score(h, e, f) * k_(b, g, i, f);
    } else if (a_.score == "additive") {
      for (int64_t e = 0; e < e_count; ++e) s += in_.w_score(h, e) * std::tanh(q_(b, h, t, e) + k_(b, g, i, e));
    } else {
      for (int64_t e = 0; e < e_count; ++e) s += q_(b, h, t, e) * k_(b, g, i, e);
      if (a_.score == "scaled_dot")
        s *= a_.scale ? *a_.scale : e_count ? 1 / std::sqrt(static_cast<double>(e_count)) : 1;
    }
    return s + (in_.b_score.given ? in_.b_score(h) : 0);
  }

  double mask_at(int64_t b, int64_t h, int64_t t, int64_t i) {
    const std::vector<int64_t> at{b, h, t, i};
    const size_t rank = in_.mask.shape.size();
    size_t flat = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t size = in_.mask.shape[axis];
      flat = flat * static_cast<size_t>(size) + static_cast<size_t>(size == 1 ? 0 : at[axis + 4 - rank]);
    }
    return in_.mask.values[flat];
  }

  bool sees(int64_t b, int64_t h, int64_t t, int64_t i) {
    if (in_.key_lengths.given && static_cast<double>(i) >= in_.key_lengths(b)) return false;
    const auto at =
        (in_.query_position.given ? in_.query_position(b) : static_cast<double>(past_)) + static_cast<double>(t);
    const auto x = static_cast<double>(i);
    if (a_.causal && x > at) return false;
    if (a_.window_left >= 0 && x < at - static_cast<double>(a_.window_left)) return false;
    if (a_.window_right >= 0 && x > at + static_cast<double>(a_.window_right)) return false;
    if (!in_.mask.given) return true;
    return in_.mask_is_bool ? mask_at(b, h, t, i) != 0 : mask_at(b, h, t, i) != -kInf;
  }

  void row(int64_t b, int64_t h, int64_t t, int64_t& position, Array& context, Array& weights) {
    const auto n = static_cast<size_t>(keys_);
    std::vector<double> raw(n), capped(n), biased(n), w(n, 0);
    std::vector<bool> seen(n);
    bool any = false;
    for (size_t i = 0; i < n; ++i) {
      const auto k = static_cast<int64_t>(i);
      raw[i] = raw_score(b, h, t, k);
      capped[i] = a_.softcap > 0 ? a_.softcap * std::tanh(raw[i] / a_.softcap) : raw[i];
      seen[i] = sees(b, h, t, k);
      any = any || seen[i];
      biased[i] = !seen[i] ? -kInf : capped[i] + (in_.mask.given && !in_.mask_is_bool ? mask_at(b, h, t, k) : 0);
    }
    if (a_.alignment == "monotonic") {
      step(position, seen, biased, w);
    } else if (!any) {
      if (a_.empty_row == "mean" && n > 0) {
        w.assign(n, 1 / static_cast<double>(n));
        seen.assign(n, true);
      }
    } else if (a_.alignment == "hard") {
      size_t best = n;
      for (size_t i = 0; i < n; ++i)
        if (seen[i] && (best == n || biased[i] > biased[best])) best = i;
      w[best] = 1;
    } else {
      softmax(0, n, seen, biased, w);
    }
    const int64_t g = h / (heads_ / v_.shape[1]);
    for (int64_t f = 0; f < width_; ++f) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i)
        if (seen[i] && (w[i] != 0 || a_.alignment == "soft")) sum += w[i] * v_(b, g, static_cast<int64_t>(i), f);
      context(b, h, t, f) = sum;
    }
    const auto& shown = a_.weights_output == "raw"      ? raw
                        : a_.weights_output == "capped" ? capped
                        : a_.weights_output == "biased" ? biased
                                                        : w;
    for (size_t i = 0; i < n; ++i) weights(b, h, t, i) = shown[i];
  }

  static void softmax(size_t first, size_t last, const std::vector<bool>& seen, const std::vector<double>& s,
                      std::vector<double>& w) {
    double top = -kInf, sum = 0;
    for (size_t i = first; i < last; ++i)
      if (seen[i]) top = std::isnan(s[i]) || std::isnan(top) ? std::nan("") : std::max(top, s[i]);
    for (size_t i = first; i < last; ++i)
      if (seen[i]) sum += std::exp(s[i] - top);
    for (size_t i = first; i < last; ++i)
      if (seen[i]) w[i] = std::exp(s[i] - top) / sum;
  }

  void step(int64_t& position, const std::vector<bool>& seen, const std::vector<double>& s,
            std::vector<double>& w) const {
    for (int64_t i = position; i < keys_; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!seen[at] || !(s[at] >= 0)) continue;
      position = i;
      softmax(static_cast<size_t>(std::max<int64_t>(0, i - a_.chunk + 1)), at + 1, seen, s, w);
      return;
    }
    position = keys_;
  }

  static Array merge(Array x) {
    Array y({x.shape[0], x.shape[2], x.shape[1] * x.shape[3]}, 0);
    for (int64_t b = 0; b < x.shape[0]; ++b)
      for (int64_t h = 0; h < x.shape[1]; ++h)
        for (int64_t t = 0; t < x.shape[2]; ++t)
          for (int64_t e = 0; e < x.shape[3]; ++e) y(b, t, h * x.shape[3] + e) = x(b, h, t, e);
    return y;
  }

  static Array head_mean(Array x) {
    Array y({x.shape[0], 1, x.shape[2], x.shape[3]}, 0);
    for (int64_t b = 0; b < x.shape[0]; ++b)
      for (int64_t h = 0; h < x.shape[1]; ++h)
        for (int64_t t = 0; t < x.shape[2]; ++t)
          for (int64_t i = 0; i < x.shape[3]; ++i) y(b, 0, t, i) += x(b, h, t, i) / static_cast<double>(x.shape[1]);
    return y;
  }

  ReferenceAttributes a_;
  ReferenceInputs in_;
  Array q_, k_, v_;
  int64_t batch_ = 0, heads_ = 0, queries_ = 0, keys_ = 0, width_ = 0, past_ = 0;
};

}  // namespace attune::test
