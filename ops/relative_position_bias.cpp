// T5's relative position bias: ai.attune RelativePositionBias, and ONNX Runtime's operator of the same name.
#include <fmt/format.h>

#include <algorithm>

#include "ops/op.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/relative_position_buckets.h"

namespace attune {
namespace {

class RelativePositionBiasKernel : public Kernel {
 public:
  explicit RelativePositionBiasKernel(const KernelContext& context)
      : max_distance_(context.node().attr_int("max_distance", 128)),
        column_major_(context.node().domain() == "com.microsoft"),
        bidirectional_(context.node().attr_int(column_major_ ? "is_bidirectional" : "bidirectional",
                                               column_major_ ? 0 : 1) != 0) {}

  // table (buckets, H), query length, key length, and the position of the first query (0 if left out).
  void run(KernelCall& call) const override {
    const Tensor& table = call.input(0);
    expect_rank(table, 0, 2);
    const int64_t queries = scalar(call, 1), keys = scalar(call, 2), offset = call.has(3) ? scalar(call, 3) : 0;
    const int64_t count = table.dim(0), heads = table.dim(1);
    if (count < (bidirectional_ ? 4 : 2)) fail_input(0, "more buckets", table.shape().to_string());
    const RelativePositionBuckets bucket(count, max_distance_, bidirectional_);
    Tensor& y = call.output(0, table.type(), {1, heads, queries, keys});
    if (y.count() == 0) return;
    const int64_t diagonals = queries + keys - 1;
    dispatch<float, double, Float16, BFloat16>(table.type(), [&]<class T>() {
      // Along a diagonal the bias is the same, so a row is a part of a head's diagonals.
      const T* from = table.data<T>();
      std::vector<T> biases(static_cast<size_t>(heads * diagonals));
      for (int64_t i = 0; i < diagonals; ++i) {
        const int64_t b = bucket(i - (queries - 1) - offset);
        for (int64_t head = 0; head < heads; ++head)
          biases[static_cast<size_t>(head * diagonals + i)] = from[column_major_ ? head * count + b : b * heads + head];
      }
      T* to = y.mutable_data<T>();
      parallel_items(heads * queries, keys, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          std::copy_n(biases.data() + row / queries * diagonals + (queries - 1 - row % queries), keys, to + row * keys);
      });
    });
  }

 private:
  static int64_t scalar(KernelCall& call, size_t i) {
    const Tensor& t = call.input(i);
    if (t.count() != 1) fail_input(i, "one number", t.shape().to_string());
    const int64_t value = t.to_int64()[0];
    if (value < 0) fail_input(i, "a length", std::to_string(value));
    return value;
  }

  int64_t max_distance_;
  bool column_major_;  // ONNX Runtime documents its table as (buckets, heads) in column-major order
  bool bidirectional_;
};

}  // namespace

std::vector<OpDef> ops_in_relative_position_bias();
std::vector<OpDef> ops_in_relative_position_bias() {
  return {{"ai.attune", "RelativePositionBias", 1, prepare<RelativePositionBiasKernel>},
          {"com.microsoft", "RelativePositionBias", 1, prepare<RelativePositionBiasKernel>}};
}

}  // namespace attune
