#include "ops/support/elementwise.h"

#include "ops/support/elements.h"

namespace attune {
namespace {

size_t width(DataType type) { return static_cast<size_t>(element_bits(type)) / 8; }

}  // namespace

void run_unary(KernelCall& call, const UnaryTable& table, const Parameters& parameters, int64_t grain) {
  const DataType type = call.input(0).type();
  const UnaryRow row = table[type];
  if (!row) fail_type(type);
  const DataType result = table.result == DataType::kUndefined ? type : table.result;
  Tensor in;
  Tensor out = reuse_or_allocate(call, 0, result, call.input(0).shape(), in);
  const size_t in_width = width(type), out_width = width(result);
  const std::byte* from = in.raw();
  std::byte* to = out.mutable_raw();
  parallel_for(out.count(), grain, [=, &parameters](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    row(from + first * in_width, to + first * out_width, static_cast<size_t>(end - begin), parameters);
  });
  call.set_output(0, std::move(out));
}

void run_binary(const BinaryTable& table, const Tensor& a, const Tensor& b, Tensor& out) {
  const BinaryRow row = table[a.type()];
  if (!row) fail_type(a.type());
  const auto in_width = static_cast<int64_t>(width(a.type())), out_width = static_cast<int64_t>(width(out.type()));
  const std::byte* x = a.raw();
  const std::byte* y = b.raw();
  std::byte* to = out.mutable_raw();
  const auto is_flat = [&](const Tensor& t) { return t.count() == 1 || t.shape() == out.shape(); };
  if (is_flat(a) && is_flat(b)) {
    const int64_t a_step = a.count() != 1, b_step = b.count() != 1;
    parallel_for(out.count(), kParallelGrain, [=](int64_t begin, int64_t end) {
      row(x + begin * a_step * in_width, static_cast<size_t>(a_step), y + begin * b_step * in_width,
          static_cast<size_t>(b_step), to + begin * out_width, static_cast<size_t>(end - begin));
    });
    return;
  }
  const auto loop = broadcast_loop<3>(out.shape(), {&a.shape(), &b.shape(), &out.shape()});
  const auto steps = loop.row_strides();
  loop.parallel_rows([&](const Loop<3>::Offsets& at, int64_t n) {
    row(x + at[0] * in_width, static_cast<size_t>(steps[0]), y + at[1] * in_width, static_cast<size_t>(steps[1]),
        to + at[2] * out_width, static_cast<size_t>(n));
  });
}

void run_binary(KernelCall& call, const BinaryTable& table) {
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  if (a.type() != b.type()) fail_input(1, name(a.type()), name(b.type()));
  const Shape shape = a.shape() == b.shape() ? a.shape() : broadcast(a.shape(), b.shape());
  const DataType result = table.result == DataType::kUndefined ? a.type() : table.result;
  constexpr int64_t kReuseCount = 1024;
  if (shape.count() < kReuseCount) {
    run_binary(table, a, b, call.output(0, result, shape));
    return;
  }
  const size_t reused = a.shape() == shape ? 0 : 1;
  Tensor taken;
  Tensor out = reuse_or_allocate(call, reused, result, shape, taken);
  run_binary(table, reused == 0 ? taken : call.input(0), reused == 1 ? taken : call.input(1), out);
  call.set_output(0, std::move(out));
}

}  // namespace attune
