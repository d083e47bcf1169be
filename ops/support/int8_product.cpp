#include "ops/support/int8_product.h"

#include <algorithm>
#include <cstring>

#include "ops/support/int8_dot.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

constexpr int64_t kBlock = 64;
// Below so many rows the exact dot products, which read each weight once, are as fast as oneDNN.
constexpr int64_t kFewRows = 4;

BufferRef acquire(int64_t bytes, BufferPool* pool) {
  return pool ? pool->acquire(static_cast<size_t>(bytes)) : BufferRef::allocate(static_cast<size_t>(bytes));
}

int32_t at(const std::vector<int32_t>& values, int64_t i) {
  return values[values.size() == 1 ? 0 : static_cast<size_t>(i)];
}

// uint8 (rows, padded): x, or x + 128 of a signed one; zeros behind.
void to_unsigned(const std::byte* x, bool is_signed, int64_t inner, int64_t padded, uint8_t* to) {
  const auto* from = reinterpret_cast<const uint8_t*>(x);
  const auto flip = static_cast<uint8_t>(is_signed ? 0x80 : 0);
  for (int64_t k = 0; k < inner; ++k) to[k] = static_cast<uint8_t>(from[k] ^ flip);
  std::fill(to + inner, to + padded, uint8_t{0});
}

}  // namespace

Int8Weights Int8Weights::pack(const std::byte* data, DataType type, int64_t inner, int64_t columns, bool transposed) {
  Int8Weights w;
  w.inner = inner;
  w.columns = columns;
  w.shift = type == DataType::kUInt8 ? 128 : 0;
  w.padded_inner = (inner + kBlock - 1) / kBlock * kBlock;
  w.values = BufferRef::allocate(static_cast<size_t>(std::max<int64_t>(1, columns * w.padded_inner)));
  w.sums.assign(static_cast<size_t>(columns), 0);
  auto* to = reinterpret_cast<int8_t*>(w.values->data());
  const auto* from = reinterpret_cast<const uint8_t*>(data);
  const auto flip = static_cast<uint8_t>(w.shift);
  for (int64_t n = 0; n < columns; ++n) {
    int8_t* column = to + n * w.padded_inner;
    std::memset(column, 0, static_cast<size_t>(w.padded_inner));
    int32_t sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += column[k] = static_cast<int8_t>(from[transposed ? n * inner + k : k * columns + n] ^ flip);
    w.sums[static_cast<size_t>(n)] = sum;
  }
  return w;
}

void Int8Product::run(const std::byte* x, DataType type, int64_t rows, const std::vector<int32_t>& x_zero,
                      const Int8Weights& w, const std::vector<int32_t>& w_zero, int32_t* y, BufferPool* pool) const {
  const int64_t k = w.inner, padded = w.padded_inner, n = w.columns;
  if (rows == 0 || n == 0) return;
  const bool is_signed = type == DataType::kInt8;
  const BufferRef memory = acquire(std::max<int64_t>(1, rows * padded), pool);
  auto* u8 = reinterpret_cast<uint8_t*>(memory->data());
  parallel_items(rows, padded, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) to_unsigned(x + r * k, is_signed, k, padded, u8 + r * padded);
  });
  const auto* weights = reinterpret_cast<const int8_t*>(w.values->data());

  std::shared_ptr<const onednn::MatMul> primitive;
  if (rows > kFewRows && padded > 0 && onednn::has_exact_int8())
    primitive = onednn::find_matmul(primitives_, {{DataType::kUInt8, {rows, padded}, {padded, 1}},
                                                  {DataType::kInt8, {padded, n}, {1, padded}},
                                                  {DataType::kInt32, {rows, n}, {n, 1}}});
  if (primitive) {
    primitive->run(u8, weights, y, pool);
  } else {
    constexpr int64_t kStep = 32;
    parallel_items((n + kStep - 1) / kStep, rows * kStep * padded / 16, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kStep, to = std::min(n, end * kStep);
      int8_dots({rows, to - from, padded, u8, padded, weights + from * padded, padded, y + from, n});
    });
  }

  // sum (x - x0)(w - w0) = sum u v + v0 sum u + u0 sum v + K u0 v0 with x = u - su, w = v + sw, u0 = -(su + x0), v0 =
  // sw - w0.
  const int32_t su = is_signed ? 128 : 0;
  parallel_items(rows, n + padded, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t u0 = -(su + at(x_zero, r));
      int32_t sum_u = 0;
      for (int64_t i = 0; i < k; ++i) sum_u += u8[r * padded + i];
      const auto row_part = static_cast<uint32_t>(sum_u) + static_cast<uint32_t>(k) * static_cast<uint32_t>(u0);
      for (int64_t c = 0; c < n; ++c) {
        const auto v0 = static_cast<uint32_t>(w.shift - at(w_zero, c));
        y[r * n + c] =
            static_cast<int32_t>(static_cast<uint32_t>(y[r * n + c]) + v0 * row_part +
                                 static_cast<uint32_t>(u0) * static_cast<uint32_t>(w.sums[static_cast<size_t>(c)]));
      }
    }
  });
}

std::string Int8Product::implementation() const {
  const auto primitive = primitives_.newest();
  return primitive ? primitive->implementation() : "int8_dots";
}

}  // namespace attune
