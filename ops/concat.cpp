// Concat.
#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", 1)) {}

  void run(KernelCall& call) const override {
    const Tensor& first = call.input(0);
    if (run_in_bytes(*this, call, first)) return;
    const size_t axis = normalize_axis(axis_, first.rank());
    const DataType type = first.type();
    Shape shape = first.shape();
    for (size_t i = 1; i < call.input_count(); ++i) {
      const Tensor& t = call.input(i);
      expect_type(t, i, type);
      check_shape(t.shape(), i, first.shape(), axis);
      shape[axis] += t.dim(axis);
    }
    if (call.input_count() == 1) {
      call.set_datum(0, call.take(0));
      return;
    }
    Tensor& out = call.output(0, type, shape);
    dispatch_width(type, [&]<class T>() { concatenate<T>(call, axis, out); });
  }
  bool accepts_strided(size_t) const override { return true; }
  std::string implementation() const override { return "copy"; }

 private:
  static void check_shape(const Shape& shape, size_t input, const Shape& first, size_t axis) {
    bool fits = shape.rank() == first.rank();
    for (size_t i = 0; fits && i < shape.rank(); ++i) fits = i == axis || shape[i] == first[i];
    if (!fits)
      fail_input(input, "the shape " + first.to_string() + " except along axis " + std::to_string(axis),
                 shape.to_string());
  }

  template <class T>
  static void concatenate(KernelCall& call, size_t axis, Tensor& out) {
    const Shape out_strides = contiguous_strides(out.shape());
    T* to = mutable_elements<T>(out);
    for (size_t i = 0; i < call.input_count(); ++i) {
      const Tensor& in = call.input(i);
      const Shape strides = strides_of(in);
      Loop<2> loop;
      for (size_t d = 0; d < in.rank(); ++d) loop.add_axis(in.dim(d), {strides[d], out_strides[d]});
      copy_strided(loop, elements<T>(in), to);
      to += in.dim(axis) * out_strides[axis];
    }
  }

  int64_t axis_;
};

}  // namespace

std::vector<OpDef> ops_in_concat() { return {{"", "Concat", 4, prepare<ConcatKernel>}}; }

}  // namespace attune
