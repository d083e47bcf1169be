#include "graph/data_type.h"

#include <array>
#include <cmath>

namespace attune {
namespace {

struct Row {
  DataType type;
  std::string_view name;
  int bits;
};

constexpr std::array kRows = {
    Row{DataType::kUndefined, "undefined", 0},
    Row{DataType::kFloat, "float", 32},
    Row{DataType::kUInt8, "uint8", 8},
    Row{DataType::kInt8, "int8", 8},
    Row{DataType::kUInt16, "uint16", 16},
    Row{DataType::kInt16, "int16", 16},
    Row{DataType::kInt32, "int32", 32},
    Row{DataType::kInt64, "int64", 64},
    Row{DataType::kString, "string", 0},
    Row{DataType::kBool, "bool", 8},
    Row{DataType::kFloat16, "float16", 16},
    Row{DataType::kDouble, "double", 64},
    Row{DataType::kUInt32, "uint32", 32},
    Row{DataType::kUInt64, "uint64", 64},
    Row{DataType::kComplex64, "complex64", 64},
    Row{DataType::kComplex128, "complex128", 128},
    Row{DataType::kBFloat16, "bfloat16", 16},
    Row{DataType::kFloat8E4M3FN, "float8e4m3fn", 8},
    Row{DataType::kFloat8E4M3FNUZ, "float8e4m3fnuz", 8},
    Row{DataType::kFloat8E5M2, "float8e5m2", 8},
    Row{DataType::kFloat8E5M2FNUZ, "float8e5m2fnuz", 8},
    Row{DataType::kUInt4, "uint4", 4},
    Row{DataType::kInt4, "int4", 4},
    Row{DataType::kFloat4E2M1, "float4e2m1", 4},
    Row{DataType::kFloat8E8M0, "float8e8m0", 8},
    Row{DataType::kUInt2, "uint2", 2},
    Row{DataType::kInt2, "int2", 2},
    Row{DataType::kFloat6E2M3, "float6e2m3", 6},
    Row{DataType::kFloat6E3M2, "float6e3m2", 6},
};

const Row& row(DataType type) noexcept {
  const auto i = static_cast<size_t>(type);
  return i < kRows.size() ? kRows[i] : kRows[0];
}

}  // namespace

int element_bits(DataType type) noexcept { return row(type).bits; }
std::string_view name(DataType type) noexcept { return row(type).name; }

DataType data_type_from_name(std::string_view name) noexcept {
  for (const Row& r : kRows)
    if (r.name == name) return r.type;
  return DataType::kUndefined;
}

bool is_half(DataType t) noexcept { return t == DataType::kFloat16 || t == DataType::kBFloat16; }

bool is_float(DataType t) noexcept {
  switch (t) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kDouble:
    case DataType::kBFloat16:
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat4E2M1:
    case DataType::kFloat8E8M0:
    case DataType::kFloat6E2M3:
    case DataType::kFloat6E3M2:
      return true;
    default:
      return false;
  }
}

bool is_signed_integer(DataType t) noexcept {
  return t == DataType::kInt8 || t == DataType::kInt16 || t == DataType::kInt32 || t == DataType::kInt64 ||
         t == DataType::kInt4 || t == DataType::kInt2;
}

bool is_integer(DataType t) noexcept {
  return is_signed_integer(t) || t == DataType::kUInt8 || t == DataType::kUInt16 || t == DataType::kUInt32 ||
         t == DataType::kUInt64 || t == DataType::kUInt4 || t == DataType::kUInt2;
}

size_t storage_bytes(DataType type, size_t count) noexcept {
  const auto bits = static_cast<size_t>(element_bits(type));
  return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

Float16::Float16(float value) noexcept {
  const auto f = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (f >> 16) & 0x8000u;
  const uint32_t magnitude = f & 0x7fffffffu;
  uint32_t out;
  if (magnitude > 0x7f800000u) {
    out = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    out = 0x7c00u;  // rounds to infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa so that the sum rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    out = std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0.5f);
  } else {
    out = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<uint16_t>(sign | out);
}

Float16::operator float() const noexcept {
  const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  const uint32_t wide = exponent == 31 ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

BFloat16::BFloat16(float value) noexcept {
  const auto f = std::bit_cast<uint32_t>(value);
  if ((f & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<uint16_t>((f >> 16) | 0x40u);
  } else {
    bits = static_cast<uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
}

}  // namespace attune
