// Gather, GatherElements, GatherND: read by indices.
#include <fmt/format.h>

#include <cstring>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/loop.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"
#include "ops/support/stored_weights.h"

namespace attune {
namespace {

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", 0)) {
    if (axis_ == 0 && context.options().pack_weights) table_ = stored_matrix(context, 0);
  }

  void run(KernelCall& call) const override {
    if (table_) return gather_rows(call, call.input(1));
    const Tensor& data = call.input(0);
    if (run_in_bytes(*this, call, data)) return;
    const Tensor& indices = call.input(1);
    const size_t axis = normalize_axis(axis_, data.rank());
    Shape shape = data.shape().first(axis);
    for (const int64_t size : indices.shape()) shape.push_back(size);
    for (size_t i = axis + 1; i < data.rank(); ++i) shape.push_back(data.dim(i));
    Tensor& out = call.output(0, data.type(), shape);
    const IndexReader index(indices, 1);
    const int64_t n = indices.count(), size = data.dim(axis);
    within("input 1", [&] {
      for (int64_t i = 0; i < n; ++i) checked_index(index[i], size);
    });
    dispatch_width(data.type(), [&]<class T>() {
      copy_blocks(elements<T>(data), index, mutable_elements<T>(out), data.shape().count(0, axis), n, size,
                  data.shape().count(axis + 1, data.rank()));
    });
  }
  bool uses_input(size_t i) const override { return i != 0 || !table_; }
  std::string implementation() const override { return table_ ? "widen" : "copy"; }

 private:
  // Rows of a table in narrow storage.
  void gather_rows(KernelCall& call, const Tensor& indices) const {
    const int64_t size = table_->values.dim(0), width = table_->values.dim(1);
    Shape shape = indices.shape();
    shape.push_back(width);
    const IndexReader index(indices, 1);
    const int64_t n = indices.count();
    within("input 1", [&] {
      for (int64_t i = 0; i < n; ++i) checked_index(index[i], size);
    });
    float* to = call.output(0, DataType::kFloat, shape).mutable_data<float>();
    parallel_for(n, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(width, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t row = index[i];
                     read_row(*table_, row < 0 ? row + size : row, to + i * width);
                   }
                 });
  }

  // out[o][i] = data[o][index[i]] for blocks of `inner` elements.
  template <class T>
  static void copy_blocks(const T* data, const IndexReader& index, T* out, int64_t outer, int64_t n, int64_t size,
                          int64_t inner) {
    const int64_t grain = std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(inner, 1));
    parallel_for(outer * n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t i = index[block % n];
        const T* from = data + (block / n * size + (i < 0 ? i + size : i)) * inner;
        std::copy_n(from, inner, out + block * inner);
      }
    });
  }
  int64_t axis_;
  std::optional<StoredMatrix> table_;
};

class GatherElementsKernel final : public Kernel {
 public:
  explicit GatherElementsKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", 0)) {}

  void run(KernelCall& call) const override {
    const Tensor& data = call.input(0);
    if (run_in_bytes(*this, call, data)) return;
    const Tensor& indices = call.input(1);
    expect_rank(indices, 1, data.rank());
    const size_t axis = normalize_axis(axis_, data.rank());
    for (size_t i = 0; i < data.rank(); ++i)
      if (i != axis && indices.dim(i) > data.dim(i))
        fail_input(1, fmt::format("at most size {} along axis {}", data.dim(i), i), indices.shape().to_string());
    Tensor& out = call.output(0, data.type(), indices.shape());
    const IndexReader index(indices, 1);
    const Shape strides = contiguous_strides(data.shape()), index_strides = contiguous_strides(indices.shape());
    Loop<2> loop;
    for (size_t i = 0; i < data.rank(); ++i)
      loop.add_axis(indices.dim(i), {i == axis ? 0 : strides[i], index_strides[i]});
    const int64_t step = loop.row_strides()[0], along = strides[axis], size = data.dim(axis);
    within("input 1", [&] {
      dispatch_width(data.type(), [&]<class T>() {
        const T* from = elements<T>(data);
        T* to = mutable_elements<T>(out);
        loop.rows(0, loop.count(), [&](const Loop<2>::Offsets& at, int64_t n) {
          for (int64_t i = 0; i < n; ++i)
            to[at[1] + i] = from[at[0] + i * step + checked_index(index[at[1] + i], size) * along];
        });
      });
    });
  }
  std::string implementation() const override { return "copy"; }

 private:
  int64_t axis_;
};

class GatherNdKernel final : public Kernel {
 public:
  explicit GatherNdKernel(const KernelContext& context) : batch_(context.node().attr_int("batch_dims", 0)) {}

  void run(KernelCall& call) const override {
    const Tensor& data = call.input(0);
    if (run_in_bytes(*this, call, data)) return;
    const Tensor& indices = call.input(1);
    if (indices.rank() == 0) fail_input(1, "rank 1 or more", "a scalar");
    const int64_t depth = indices.shape().back();
    const auto batch = static_cast<size_t>(batch_);
    if (batch_ < 0 || batch >= indices.rank() || batch_ + depth > static_cast<int64_t>(data.rank()))
      fail_input(1, fmt::format("indices into {} with batch_dims {}", data.shape().to_string(), batch_),
                 indices.shape().to_string());
    for (size_t i = 0; i < batch; ++i)
      if (data.dim(i) != indices.dim(i))
        fail_input(1, data.shape().to_string() + " in batch axes", indices.shape().to_string());
    const size_t indexed = batch + static_cast<size_t>(depth);
    Shape shape = indices.shape().first(indices.rank() - 1);
    for (size_t i = indexed; i < data.rank(); ++i) shape.push_back(data.dim(i));
    Tensor& out = call.output(0, data.type(), shape);

    const IndexReader index(indices, 1);
    const Shape strides = contiguous_strides(data.shape());
    const int64_t batches = data.shape().count(0, batch), inner = data.shape().count(indexed, data.rank());
    const int64_t each = indices.shape().count(batch, indices.rank() - 1);
    const int64_t batch_stride = data.shape().count(batch, data.rank());
    within("input 1", [&] {
      dispatch_width(data.type(), [&]<class T>() {
        const T* from = elements<T>(data);
        T* to = mutable_elements<T>(out);
        for (int64_t i = 0; i < batches * each; ++i) {
          int64_t offset = i / each * batch_stride;
          for (int64_t d = 0; d < depth; ++d) {
            const size_t axis = batch + static_cast<size_t>(d);
            offset += checked_index(index[i * depth + d], data.dim(axis)) * strides[axis];
          }
          std::copy_n(from + offset, inner, to + i * inner);
        }
      });
    });
  }
  std::string implementation() const override { return "copy"; }

 private:
  int64_t batch_;
};

}  // namespace

std::vector<OpDef> ops_in_gather() {
  return {{"", "Gather", 1, prepare<GatherKernel>},
          {"", "GatherElements", 11, prepare<GatherElementsKernel>},
          {"", "GatherND", 11, prepare<GatherNdKernel>}};
}

}  // namespace attune
