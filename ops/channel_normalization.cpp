// Normalisations with statistics per channel or group, and over local windows: BatchNormalization,
// InstanceNormalization, GroupNormalization, LpNormalization, MeanVarianceNormalization, LRN.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/counts.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

int64_t channels_of(const Tensor& x, size_t least_rank = 2) {
  if (x.rank() < least_rank) fail_input(0, fmt::format("rank {} at least", least_rank), x.shape().to_string());
  return x.dim(1);
}

// X, scale, B, mean, variance. In training mode the batch's own statistics count, and outputs 1 and 2 are the running
// ones: momentum of the old, the rest of the batch's.
class BatchNormalizationKernel : public FloatKernel<BatchNormalizationKernel> {
 public:
  explicit BatchNormalizationKernel(const KernelContext& context)
      : epsilon_(context.node().attr_float("epsilon", 1e-5F)),
        momentum_(context.node().attr_float("momentum", 0.9F)),
        training_(context.node().attr_int("training_mode", 0) != 0) {
    if (context.opset() < 9 && context.node().attr_int("spatial", 1) == 0)
      throw Error(Error::Kind::kUnsupported, "spatial = 0");
  }

 private:
  friend FloatKernel<BatchNormalizationKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    // A vector is a batch of one channel.
    const int64_t channels = x.rank() == 1 ? 1 : channels_of(x);
    for (size_t i = 1; i <= 4; ++i) expect_count(call.input(i), i, channels);
    const FloatView<T> in(x, call.pool()), scale(call.input(1), call.pool()), bias(call.input(2), call.pool()),
        old_mean(call.input(3), call.pool()), old_variance(call.input(4), call.pool());
    FloatResult<T> y(call, 0, x.type(), x.shape());
    const int64_t planes = x.rank() == 1 ? x.dim(0) : x.dim(0) * channels;
    const int64_t size = planes ? x.count() / planes : 0;
    std::vector<T> mean(old_mean.data(), old_mean.data() + channels),
        variance(old_variance.data(), old_variance.data() + channels);
    if (training_) {
      batch_statistics(in.data(), planes, size, mean, variance);
      store_running(call, 1, old_mean, mean);
      store_running(call, 2, old_variance, variance);
    }
    parallel_items(planes, size, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t c = p % channels;
        const T center = mean[static_cast<size_t>(c)],
                factor = scale[c] / std::sqrt(variance[static_cast<size_t>(c)] + static_cast<T>(epsilon_));
        for (int64_t i = p * size; i < (p + 1) * size; ++i) y.data()[i] = (in[i] - center) * factor + bias[c];
      }
    });
    y.store(call);
  }

  template <class T>
  static void batch_statistics(const T* x, int64_t planes, int64_t size, std::vector<T>& mean,
                               std::vector<T>& variance) {
    const auto channels = static_cast<int64_t>(mean.size());
    const auto count = static_cast<double>(channels ? planes / channels * size : 0);
    for (int64_t c = 0; c < channels; ++c) {
      const auto sum = [&](auto&& f) {
        double total = 0;
        for (int64_t p = c; p < planes; p += channels)
          for (int64_t i = p * size; i < (p + 1) * size; ++i) total += f(static_cast<double>(x[i]));
        return total / count;
      };
      const double m = sum([](double v) { return v; });
      mean[static_cast<size_t>(c)] = static_cast<T>(m);
      variance[static_cast<size_t>(c)] = static_cast<T>(sum([m](double v) { return (v - m) * (v - m); }));
    }
  }

  template <class T>
  void store_running(KernelCall& call, size_t output, const FloatView<T>& old, const std::vector<T>& batch) const {
    if (output >= call.output_count() || !call.wants(output)) return;
    const Tensor& like = call.input(output + 2);
    FloatResult<T> running(call, output, like.type(), like.shape());
    for (size_t c = 0; c < batch.size(); ++c)
      running.data()[c] =
          old[static_cast<int64_t>(c)] * static_cast<T>(momentum_) + batch[c] * static_cast<T>(1 - momentum_);
    running.store(call);
  }

  float epsilon_, momentum_;
  bool training_;
};

// X, scale, bias: statistics over all of a group of channels of one item.
template <bool kInstance>
class GroupNormalizationKernel : public FloatKernel<GroupNormalizationKernel<kInstance>> {
 public:
  explicit GroupNormalizationKernel(const KernelContext& context)
      : epsilon_(context.node().attr_float("epsilon", 1e-5F)),
        groups_(context.node().attr_int("num_groups", 1)),
        scale_per_group_(!kInstance && context.opset() < 21) {}

 private:
  friend FloatKernel<GroupNormalizationKernel<kInstance>>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const int64_t channels = channels_of(x, 3), groups = kInstance ? channels : groups_;
    if (groups < 1 || channels % groups != 0)
      fail_input(0, fmt::format("channels in {} groups", groups), x.shape().to_string());
    const int64_t scales = scale_per_group_ ? groups : channels;
    expect_count(call.input(1), 1, scales);
    expect_count(call.input(2), 2, scales);
    const FloatView<T> in(x, call.pool()), scale(call.input(1), call.pool()), bias(call.input(2), call.pool());
    FloatResult<T> y(call, 0, x.type(), x.shape());
    const int64_t rows = x.dim(0) * groups, n = rows ? x.count() / rows : 0, each = channels / groups;
    const int64_t plane = each ? n / each : 0;
    if (n > 0)
      parallel_items(rows, 4 * n, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          normalize_row(RowNormalization<T>{false, static_cast<double>(epsilon_), nullptr, nullptr}, in.data() + r * n,
                        y.data() + r * n, n);
          for (int64_t c = 0; c < each; ++c) {
            const int64_t s = scale_per_group_ ? r % groups : r % groups * each + c;
            T* to = y.data() + r * n + c * plane;
            for (int64_t i = 0; i < plane; ++i) to[i] = to[i] * scale[s] + bias[s];
          }
        }
      });
    y.store(call);
  }

  float epsilon_;
  int64_t groups_;
  bool scale_per_group_;
};

class LpNormalizationKernel : public FloatKernel<LpNormalizationKernel> {
 public:
  explicit LpNormalizationKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", -1)), p_(context.node().attr_int("p", 2)) {
    if (p_ != 1 && p_ != 2) throw Error(Error::Kind::kInvalidModel, fmt::format("p must be 1 or 2, is {}", p_));
  }

 private:
  friend FloatKernel<LpNormalizationKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const size_t axis = normalize_axis(axis_, x.rank());
    const int64_t n = x.dim(axis), inner = x.shape().count(axis + 1, x.rank()), outer = x.shape().count(0, axis);
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), x.shape());
    parallel_items(outer * inner, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t start = r / inner * n * inner + r % inner;
        T sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          const T v = in[start + k * inner];
          sum += p_ == 1 ? std::abs(v) : v * v;
        }
        const T norm = p_ == 1 ? sum : std::sqrt(sum);
        for (int64_t k = 0; k < n; ++k) y.data()[start + k * inner] = norm == 0 ? T{0} : in[start + k * inner] / norm;
      }
    });
    y.store(call);
  }

  int64_t axis_, p_;
};

// y = (x - mean) / (standard deviation + 1e-9) over `axes`.
class MeanVarianceNormalizationKernel : public FloatKernel<MeanVarianceNormalizationKernel> {
 public:
  explicit MeanVarianceNormalizationKernel(const KernelContext& context)
      : axes_(context.node().attr_ints("axes", {0, 2, 3})) {}

 private:
  friend FloatKernel<MeanVarianceNormalizationKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    std::vector<bool> reduced(x.rank(), false);
    for (const int64_t a : axes_) reduced[normalize_axis(a, x.rank())] = true;
    // The group of element i: its index over the axes that are kept.
    const auto group_of = [&](int64_t i) {
      int64_t group = 0, step = 1;
      for (size_t axis = x.rank(); axis-- > 0;) {
        const int64_t at = i % x.dim(axis);
        i /= x.dim(axis);
        if (reduced[axis]) continue;
        group += at * step;
        step *= x.dim(axis);
      }
      return static_cast<size_t>(group);
    };
    int64_t groups = 1;
    for (size_t axis = 0; axis < x.rank(); ++axis)
      if (!reduced[axis]) groups *= x.dim(axis);
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), x.shape());
    std::vector<double> mean(static_cast<size_t>(groups)), deviation(mean.size());
    const double n = groups ? static_cast<double>(x.count() / groups) : 1.0;
    for (int64_t i = 0; i < x.count(); ++i) mean[group_of(i)] += static_cast<double>(in[i]) / n;
    for (int64_t i = 0; i < x.count(); ++i)
      deviation[group_of(i)] += std::pow(static_cast<double>(in[i]) - mean[group_of(i)], 2) / n;
    for (double& d : deviation) d = std::sqrt(d) + 1e-9;
    for (int64_t i = 0; i < x.count(); ++i)
      y.data()[i] = static_cast<T>((static_cast<double>(in[i]) - mean[group_of(i)]) / deviation[group_of(i)]);
    y.store(call);
  }

  std::vector<int64_t> axes_;
};

// y = x / (bias + alpha / size * sum of squares of the channels near)^beta.
class LrnKernel : public FloatKernel<LrnKernel> {
 public:
  explicit LrnKernel(const KernelContext& context)
      : alpha_(context.node().attr_float("alpha", 1e-4F)),
        beta_(context.node().attr_float("beta", 0.75F)),
        bias_(context.node().attr_float("bias", 1.0F)),
        size_(context.node().attr_int("size", 0)) {
    if (size_ < 1) throw Error(Error::Kind::kInvalidModel, "size must be positive");
  }

 private:
  friend FloatKernel<LrnKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const int64_t channels = channels_of(x, 3), plane = x.shape().count(2, x.rank());
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), x.shape());
    parallel_items(x.dim(0) * channels, plane * std::min(size_, channels), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t c = p % channels, first = p - c;
        const int64_t low = std::max<int64_t>(0, c - (size_ - 1) / 2), high = std::min(channels - 1, c + size_ / 2);
        for (int64_t i = 0; i < plane; ++i) {
          T sum = 0;
          for (int64_t k = low; k <= high; ++k) {
            const T v = in[(first + k) * plane + i];
            sum += v * v;
          }
          const T base = static_cast<T>(bias_) + static_cast<T>(alpha_) / static_cast<T>(size_) * sum;
          y.data()[p * plane + i] = in[p * plane + i] / std::pow(base, static_cast<T>(beta_));
        }
      }
    });
    y.store(call);
  }

  float alpha_, beta_, bias_;
  int64_t size_;
};

}  // namespace

std::vector<OpDef> ops_in_channel_normalization();
std::vector<OpDef> ops_in_channel_normalization() {
  return {{"", "BatchNormalization", 1, prepare<BatchNormalizationKernel>},
          {"", "InstanceNormalization", 1, prepare<GroupNormalizationKernel<true>>},
          {"", "GroupNormalization", 18, prepare<GroupNormalizationKernel<false>>},
          {"", "LpNormalization", 1, prepare<LpNormalizationKernel>},
          {"", "MeanVarianceNormalization", 9, prepare<MeanVarianceNormalizationKernel>},
          {"", "LRN", 1, prepare<LrnKernel>}};
}

}  // namespace attune
