// Elementwise kernels: tables of row functions by element type, and the kernels that run them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "graph/error.h"
#include "ops/kernel.h"
#include "ops/op.h"
#include "ops/support/half.h"
#include "ops/support/loop.h"

namespace attune {

// Attributes that an elementwise function may have.
struct Parameters {
  double alpha = 0;
  double beta = 0;
};

// out[i] = f(in[i]); `out` may be `in` if the widths agree.
using UnaryRow = void (*)(const std::byte* in, std::byte* out, size_t n, const Parameters& parameters);
// out[i] = f(a[i * a_step], b[i * b_step]); steps are 0 or 1; `out` may be `a` or `b` (of the same width, step 1).
using BinaryRow = void (*)(const std::byte* a, size_t a_step, const std::byte* b, size_t b_step, std::byte* out,
                           size_t n);

inline constexpr size_t kDataTypes = static_cast<size_t>(DataType::kFloat6E3M2) + 1;  // the last

// A function per input element type; null where there is none.
template <class Row>
struct RowTable {
  std::array<Row, kDataTypes> rows{};
  DataType result = DataType::kUndefined;  // undefined: as the inputs

  constexpr Row operator[](DataType type) const {
    const auto i = static_cast<size_t>(type);
    return i < rows.size() ? rows[i] : nullptr;
  }
  constexpr Row& operator[](DataType type) { return rows.at(static_cast<size_t>(type)); }
};
using UnaryTable = RowTable<UnaryRow>;
using BinaryTable = RowTable<BinaryRow>;

// How many elements go through scratch floats at once when a half type is computed in float.
inline constexpr size_t kHalfBlock = 512;

// F is constructed from Parameters, or has no state; operator()(T) gives Out (as T where not said).
template <class F>
F make_function(const Parameters& parameters) {
  if constexpr (std::is_constructible_v<F, const Parameters&>) {
    return F(parameters);
  } else {
    return F{};
  }
}

template <class F, class T, class Out = T>
void unary_row(const std::byte* in, std::byte* out, size_t n, const Parameters& parameters) {
  const F f = make_function<F>(parameters);
  if constexpr (kIsHalf<T>) {
    std::array<float, kHalfBlock> block;
    for (size_t done = 0; done < n; done += kHalfBlock) {
      const size_t m = std::min(kHalfBlock, n - done);
      convert(reinterpret_cast<const T*>(in) + done, block.data(), m);
      if constexpr (std::is_same_v<Out, T>) {
        for (size_t i = 0; i < m; ++i) block[i] = f(block[i]);
        convert(block.data(), reinterpret_cast<T*>(out) + done, m);
      } else {
        for (size_t i = 0; i < m; ++i) reinterpret_cast<Out*>(out)[done + i] = static_cast<Out>(f(block[i]));
      }
    }
  } else {
    const T* x = reinterpret_cast<const T*>(in);
    Out* y = reinterpret_cast<Out*>(out);
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<Out>(f(x[i]));
  }
}

// A vectorised function on floats as a row function, for float or (through float) a half type.
template <auto kFunction, class T>
void vector_row(const std::byte* in, std::byte* out, size_t n, const Parameters&) {
  if constexpr (kIsHalf<T>) {
    std::array<float, kHalfBlock> block;
    for (size_t done = 0; done < n; done += kHalfBlock) {
      const size_t m = std::min(kHalfBlock, n - done);
      convert(reinterpret_cast<const T*>(in) + done, block.data(), m);
      kFunction(block.data(), block.data(), m);
      convert(block.data(), reinterpret_cast<T*>(out) + done, m);
    }
  } else {
    kFunction(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), n);
  }
}

template <class F, class T, class Out>
void binary_loop(const T* a, size_t a_step, const T* b, size_t b_step, Out* out, size_t n) {
  const F f{};
  if (a_step && b_step) {
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(a[i], b[i]));
  } else if (a_step) {
    const T y = b[0];
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(a[i], y));
  } else if (b_step) {
    const T x = a[0];
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(x, b[i]));
  } else if (n > 0) {
    std::fill_n(out, n, static_cast<Out>(f(a[0], b[0])));
  }
}

template <class F, class T, class Out = T>
void binary_row(const std::byte* a, size_t a_step, const std::byte* b, size_t b_step, std::byte* out, size_t n) {
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  if constexpr (kIsHalf<T>) {
    constexpr bool kSame = std::is_same_v<Out, T>;
    std::array<float, kHalfBlock> left, right;
    for (size_t done = 0; done < n; done += kHalfBlock) {
      const size_t m = std::min(kHalfBlock, n - done);
      convert(x + done * a_step, left.data(), a_step ? m : 1);
      convert(y + done * b_step, right.data(), b_step ? m : 1);
      if constexpr (kSame) {
        std::array<float, kHalfBlock> result;
        binary_loop<F>(left.data(), a_step, right.data(), b_step, result.data(), m);
        convert(result.data(), reinterpret_cast<T*>(out) + done, m);
      } else {
        binary_loop<F>(left.data(), a_step, right.data(), b_step, reinterpret_cast<Out*>(out) + done, m);
      }
    }
  } else {
    binary_loop<F>(x, a_step, y, b_step, reinterpret_cast<Out*>(out), n);
  }
}

// Tables. Out is void for "as the input".
template <class F, class Out, class... Ts>
constexpr UnaryTable unary_table() {
  UnaryTable table;
  ((table[kDataTypeOf<Ts>] = unary_row<F, Ts, std::conditional_t<std::is_void_v<Out>, Ts, Out>>), ...);
  if constexpr (!std::is_void_v<Out>) table.result = kDataTypeOf<Out>;
  return table;
}
template <class F, class Out, class... Ts>
constexpr BinaryTable binary_table() {
  BinaryTable table;
  ((table[kDataTypeOf<Ts>] = binary_row<F, Ts, std::conditional_t<std::is_void_v<Out>, Ts, Out>>), ...);
  if constexpr (!std::is_void_v<Out>) table.result = kDataTypeOf<Out>;
  return table;
}
// Serves signed integers by the functions for unsigned ones of their width: the bits of the results agree.
template <class Row>
constexpr RowTable<Row> signed_as_unsigned(RowTable<Row> table) {
  table[DataType::kInt8] = table[DataType::kUInt8];
  table[DataType::kInt16] = table[DataType::kUInt16];
  table[DataType::kInt32] = table[DataType::kUInt32];
  table[DataType::kInt64] = table[DataType::kUInt64];
  return table;
}
template <auto kFunction>
constexpr void set_vector_rows(UnaryTable& table) {
  table[DataType::kFloat] = vector_row<kFunction, float>;
  table[DataType::kFloat16] = vector_row<kFunction, Float16>;
  table[DataType::kBFloat16] = vector_row<kFunction, BFloat16>;
}

// Of all float types; plainly, or with a vectorised function for those up to 32 bits.
template <class F>
constexpr UnaryTable float_table() {
  return unary_table<F, void, float, double, Float16, BFloat16>();
}
template <class F, auto kFunction>
constexpr UnaryTable vector_table() {
  UnaryTable table = float_table<F>();
  set_vector_rows<kFunction>(table);
  return table;
}

// Output 0 = f(input 0). `grain`: elements worth a thread.
void run_unary(KernelCall& call, const UnaryTable& table, const Parameters& parameters, int64_t grain = kParallelGrain);
// f over two tensors broadcast together. `out` is allocated by the caller with the shape they broadcast to.
void run_binary(const BinaryTable& table, const Tensor& a, const Tensor& b, Tensor& out);
// Output 0 = f(input 0, input 1).
void run_binary(KernelCall& call, const BinaryTable& table);

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(const UnaryTable& table, Parameters parameters) : table_(table), parameters_(parameters) {}
  void run(KernelCall& call) const override { run_unary(call, table_, parameters_); }
  std::string implementation() const override { return "elementwise"; }

 private:
  const UnaryTable& table_;
  Parameters parameters_;
};

class BinaryKernel final : public Kernel {
 public:
  explicit BinaryKernel(const BinaryTable& table) : table_(table) {}
  void run(KernelCall& call) const override { run_binary(call, table_); }
  std::string implementation() const override { return "elementwise"; }

 private:
  const BinaryTable& table_;
};

// Prepare functions for OpDef: a kernel over a table with static storage.
template <const UnaryTable& kTable>
std::unique_ptr<Kernel> prepare_unary(const KernelContext&) {
  return std::make_unique<UnaryKernel>(kTable, Parameters{});
}
template <const BinaryTable& kTable>
std::unique_ptr<Kernel> prepare_binary(const KernelContext&) {
  return std::make_unique<BinaryKernel>(kTable);
}

}  // namespace attune
