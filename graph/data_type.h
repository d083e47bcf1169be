// Element types of tensors. The numbers are those of onnx::TensorProto_DataType.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attune {

enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28
};

// Storage bits of one element (4 for int4, which is packed two to a byte, low nibble first; 6 for float6, four to
// three bytes).
// kString and kUndefined: 0.
int element_bits(DataType type) noexcept;
// The name ONNX text uses: "float", "int64", "bfloat16" ...; "undefined".
std::string_view name(DataType type) noexcept;
// The inverse of name(); kUndefined if there is none.
DataType data_type_from_name(std::string_view name) noexcept;
bool is_half(DataType type) noexcept;     // float16, bfloat16
bool is_float(DataType type) noexcept;    // float16, bfloat16, float, double, float8*, float6*, float4
bool is_integer(DataType type) noexcept;  // int2 to uint64, not bool
bool is_signed_integer(DataType type) noexcept;
// Bytes that `count` elements need (sub-byte types rounded up to a byte). No overflow check.
size_t storage_bytes(DataType type, size_t count) noexcept;

// IEEE binary16, round to nearest even; NaN and infinities kept.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) noexcept;
  explicit operator float() const noexcept;
  friend bool operator==(Float16 a, Float16 b) noexcept { return float(a) == float(b); }
};

// The upper half of a float, round to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) noexcept;
  explicit operator float() const noexcept { return std::bit_cast<float>(uint32_t{bits} << 16); }
  friend bool operator==(BFloat16 a, BFloat16 b) noexcept { return float(a) == float(b); }
};

template <class T>
inline constexpr DataType kDataTypeOf = DataType::kUndefined;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::kFloat;
template <>
inline constexpr DataType kDataTypeOf<double> = DataType::kDouble;
template <>
inline constexpr DataType kDataTypeOf<Float16> = DataType::kFloat16;
template <>
inline constexpr DataType kDataTypeOf<BFloat16> = DataType::kBFloat16;
template <>
inline constexpr DataType kDataTypeOf<int8_t> = DataType::kInt8;
template <>
inline constexpr DataType kDataTypeOf<uint8_t> = DataType::kUInt8;
template <>
inline constexpr DataType kDataTypeOf<int16_t> = DataType::kInt16;
template <>
inline constexpr DataType kDataTypeOf<uint16_t> = DataType::kUInt16;
template <>
inline constexpr DataType kDataTypeOf<int32_t> = DataType::kInt32;
template <>
inline constexpr DataType kDataTypeOf<uint32_t> = DataType::kUInt32;
template <>
inline constexpr DataType kDataTypeOf<int64_t> = DataType::kInt64;
template <>
inline constexpr DataType kDataTypeOf<uint64_t> = DataType::kUInt64;
template <>
inline constexpr DataType kDataTypeOf<bool> = DataType::kBool;

}  // namespace attune
