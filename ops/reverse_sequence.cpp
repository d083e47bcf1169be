// ReverseSequence: reverses the first lengths[b] elements of each batch entry.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/loop.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ReverseSequenceKernel final : public Kernel {
 public:
  explicit ReverseSequenceKernel(const KernelContext& context)
      : batch_axis_(context.node().attr_int("batch_axis", 1)), time_axis_(context.node().attr_int("time_axis", 0)) {
    if (batch_axis_ + time_axis_ != 1 || batch_axis_ * time_axis_ != 0)
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("batch_axis {} and time_axis {} aren't 0 and 1", batch_axis_, time_axis_));
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    const Tensor& lengths = call.input(1);
    if (in.rank() < 2) fail_input(0, "rank 2 or more", in.shape().to_string());
    expect_type(lengths, 1, DataType::kInt64);
    const int64_t batch = in.dim(static_cast<size_t>(batch_axis_)), time = in.dim(static_cast<size_t>(time_axis_));
    if (lengths.count() != batch) fail_input(1, fmt::format("{} lengths", batch), lengths.shape().to_string());
    const int64_t inner = in.shape().count(2, in.rank());
    const int64_t batch_stride = batch_axis_ == 0 ? time * inner : inner;
    const int64_t time_stride = batch_axis_ == 0 ? inner : batch * inner;
    Tensor& out = call.output(0, in.type(), in.shape());
    for (int64_t b = 0; b < batch; ++b)
      if (const int64_t n = lengths.data<int64_t>()[b]; n < 0 || n > time)
        fail_input(1, fmt::format("lengths from 0 to {}", time), fmt::format("{}", n));
    dispatch_width(in.type(), [&]<class T>() {
      const T* from = elements<T>(in);
      T* to = mutable_elements<T>(out);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t n = lengths.data<int64_t>()[b];
        for (int64_t t = 0; t < time; ++t) {
          const int64_t source = t < n ? n - 1 - t : t;
          std::copy_n(from + b * batch_stride + source * time_stride, inner, to + b * batch_stride + t * time_stride);
        }
      }
    });
  }
  std::string implementation() const override { return "copy"; }

 private:
  int64_t batch_axis_, time_axis_;
};

}  // namespace

std::vector<OpDef> ops_in_reverse_sequence() { return {{"", "ReverseSequence", 10, prepare<ReverseSequenceKernel>}}; }

}  // namespace attune
