// OneHot and EyeLike.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/elements.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class OneHotKernel final : public Kernel {
 public:
  explicit OneHotKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", -1)) {}

  void run(KernelCall& call) const override {
    // Indices and depth may be of any numeric type.
    const Tensor indices = cast(call.input(0), DataType::kInt64, call.pool());
    const Tensor depths = cast(call.input(1), DataType::kInt64, call.pool());
    const Tensor& values = call.input(2);
    if (depths.count() != 1) fail_input(1, "a scalar", depths.shape().to_string());
    const int64_t depth = depths.data<int64_t>()[0];
    if (depth < 0) fail_input(1, "a depth of 0 or more", fmt::format("{}", depth));
    if (values.count() != 2) fail_input(2, "two values", values.shape().to_string());
    const size_t axis = normalize_axis(axis_, indices.rank() + 1);
    Shape shape = indices.shape();
    shape.insert(axis, depth);
    Tensor& out = call.output(0, values.type(), shape);
    const int64_t inner = indices.shape().count(axis, indices.rank());
    const int64_t* index = indices.data<int64_t>();
    dispatch_width(values.type(), [&]<class T>() {
      const T* value = elements<T>(values);
      T* to = mutable_elements<T>(out);
      std::fill_n(to, out.count(), value[0]);
      for (int64_t i = 0; i < indices.count(); ++i) {
        // Outside of [-depth, depth) there is no "on".
        if (index[i] < -depth || index[i] >= depth) continue;
        const int64_t at = index[i] < 0 ? index[i] + depth : index[i];
        to[(i / inner * depth + at) * inner + i % inner] = value[1];
      }
    });
  }

 private:
  int64_t axis_;
};

class EyeLikeKernel final : public Kernel {
 public:
  explicit EyeLikeKernel(const KernelContext& context)
      : diagonal_(context.node().attr_int("k", 0)), type_(static_cast<DataType>(context.node().attr_int("dtype", 0))) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (in.rank() != 1 && in.rank() != 2) fail_input(0, "rank 1 or 2", in.shape().to_string());
    const int64_t rows = in.dim(0), columns = in.rank() == 2 ? in.dim(1) : rows;
    Tensor ones = Tensor::allocate(DataType::kUInt8, {rows, columns}, call.pool());
    auto* y = ones.mutable_data<uint8_t>();
    std::fill_n(y, ones.count(), uint8_t{0});
    if (diagonal_ > -rows && diagonal_ < columns)
      for (int64_t r = std::max<int64_t>(0, -diagonal_); r < std::min(rows, columns - diagonal_); ++r)
        y[r * columns + r + diagonal_] = 1;
    call.set_output(0, cast(ones, type_ == DataType::kUndefined ? in.type() : type_, call.pool()));
  }

 private:
  int64_t diagonal_;
  DataType type_;
};

}  // namespace

std::vector<OpDef> ops_in_one_hot() {
  return {{"", "OneHot", 9, prepare<OneHotKernel>}, {"", "EyeLike", 9, prepare<EyeLikeKernel>}};
}

}  // namespace attune
