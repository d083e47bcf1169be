// T5's relative position bias: ai.attune RelativePositionBias, and ONNX Runtime's operator of the same name.
#include <fmt/format.h>

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
    // Along a diagonal the bucket is the same.
    std::vector<int64_t> buckets(static_cast<size_t>(std::max<int64_t>(0, queries + keys - 1)));
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] = bucket(static_cast<int64_t>(i) - (queries - 1) - offset);
    Tensor& y = call.output(0, table.type(), {1, heads, queries, keys});
    dispatch<float, double, Float16, BFloat16>(table.type(), [&]<class T>() {
      const T* from = table.data<T>();
      T* to = y.mutable_data<T>();
      parallel_items(heads * queries, 4 * keys, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t head = row / queries, query = row % queries;
          const int64_t* diagonal = buckets.data() + (queries - 1 - query);
          for (int64_t key = 0; key < keys; ++key)
            to[row * keys + key] = from[column_major_ ? head * count + diagonal[key] : diagonal[key] * heads + head];
        }
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
