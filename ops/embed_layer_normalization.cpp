// ONNX Runtime's EmbedLayerNormalization: the sum of word, position and segment embeddings, normalised.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/counts.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

enum Input : size_t { kIds, kSegments, kWords, kPositions, kSegmentTable, kGamma, kBeta, kMask, kPositionIds };

class EmbedLayerNormalizationKernel : public Kernel {
 public:
  explicit EmbedLayerNormalizationKernel(const KernelContext& context)
      : epsilon_(context.node().attr_float("epsilon", 1e-12F)) {}

  void run(KernelCall& call) const override {
    const Tensor& ids = call.input(kIds);
    expect_rank(ids, kIds, 2);
    const Tensor& words = call.input(kWords);
    expect_rank(words, kWords, 2);
    const int64_t batch = ids.dim(0), length = ids.dim(1), n = words.dim(1);
    const Table word = table(call, kWords, kIds, n), position = table(call, kPositions, kPositionIds, n),
                segment = table(call, kSegmentTable, kSegments, n);
    if (!position.ids.empty() && position.ids.size() != static_cast<size_t>(length) &&
        position.ids.size() != word.ids.size())
      fail_input(kPositionIds, ids.shape().to_string(), call.input(kPositionIds).shape().to_string());
    if (!segment.ids.empty() && segment.ids.size() != word.ids.size())
      fail_input(kSegments, ids.shape().to_string(), call.input(kSegments).shape().to_string());
    if (position.ids.empty() && length > position.rows)
      fail_input(kIds, fmt::format("at most {} positions", position.rows), ids.shape().to_string());
    expect_count(call.input(kGamma), kGamma, n);
    expect_count(call.input(kBeta), kBeta, n);
    if (call.has(kMask)) expect_count(call.input(kMask), kMask, batch * length);
    const FloatView<float> gamma(call.input(kGamma), call.pool()), beta(call.input(kBeta), call.pool());
    const Shape shape{batch, length, n};
    FloatResult<float> y(call, 0, words.type(), shape), sum;
    if (call.output_count() > 2 && call.wants(2)) sum = FloatResult<float>(call, 2, words.type(), shape);
    parallel_items(batch * length, 6 * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* row = y.data() + r * n;
        const auto at = static_cast<size_t>(r);
        const float* p =
            position.values.data() + (position.ids.empty() ? r % length : position.ids[at % position.ids.size()]) * n;
        add_row(word.values.data() + word.ids[at] * n, p, row, n);
        if (segment.values)
          add_row(row, segment.values.data() + (segment.ids.empty() ? 0 : segment.ids[at]) * n, row, n);
        if (sum) std::copy_n(row, n, sum.data() + r * n);
        normalize_row(RowNormalization<float>{false, static_cast<double>(epsilon_), gamma.data(), beta.data()}, row,
                      row, n);
      }
    });
    y.store(call);
    sum.store(call);
    if (call.output_count() > 1 && call.wants(1)) store_mask_index(call, batch, length);
  }

 private:
  struct Table {
    FloatView<float> values;
    int64_t rows = 0;
    std::vector<int64_t> ids;
  };

  static Table table(KernelCall& call, size_t values, size_t ids, int64_t n) {
    Table t;
    const Tensor* tensor = call.optional_input(values);
    if (!tensor) return t;
    if (tensor->rank() != 2 || tensor->dim(1) != n)
      fail_input(values, fmt::format("shape (rows,{})", n), tensor->shape().to_string());
    t.values = FloatView<float>(*tensor, call.pool());
    t.rows = tensor->dim(0);
    if (call.has(ids)) t.ids = call.input(ids).to_int64();
    for (const int64_t id : t.ids)
      if (id < 0 || id >= t.rows) fail_input(ids, fmt::format("indices from 0 to {}", t.rows - 1), std::to_string(id));
    return t;
  }

  // The number of ones in each row of the mask; zeros without a mask.
  static void store_mask_index(KernelCall& call, int64_t batch, int64_t length) {
    std::vector<int64_t> mask;
    if (call.has(kMask)) mask = call.input(kMask).to_int64();
    Tensor& index = call.output(1, DataType::kInt32, {batch});
    for (int64_t b = 0; b < batch; ++b) {
      int32_t ones = 0;
      for (int64_t t = 0; t < length && !mask.empty(); ++t)
        ones += mask[static_cast<size_t>(b * length + t)] == 1 ? 1 : 0;
      index.mutable_data<int32_t>()[b] = ones;
    }
  }

  float epsilon_;
};

}  // namespace

std::vector<OpDef> ops_in_embed_layer_normalization();
std::vector<OpDef> ops_in_embed_layer_normalization() {
  return {{"com.microsoft", "EmbedLayerNormalization", 1, prepare<EmbedLayerNormalizationKernel>}};
}

}  // namespace attune
