// Element types of at most a byte: float8, float4, int4, int2.
#pragma once

#include <cstdint>

#include "graph/data_type.h"

namespace attune {

// How a number that is too large, or not between two float8e8m0 values, becomes one (Cast's attributes).
struct SmallFloatRounding {
  enum class Mode { kUp, kDown, kNearest };
  bool saturate = true;   // to the largest finite value; else NaN or infinity
  Mode e8m0 = Mode::kUp;  // float8e8m0 only; the others round to nearest even
};

bool is_small_float(DataType type) noexcept;  // float8*, float4e2m1
// The number that the low bits of `code` stand for. Formats: OCP 8-bit floating point, OCP microscaling, and
// ONNX's documentation of float8 for the FNUZ variants.
float decode_small_float(DataType type, uint8_t code) noexcept;
uint8_t encode_small_float(DataType type, double value, const SmallFloatRounding& rounding) noexcept;

// Element i of packed elements of `bits` bits, low bits first.
inline uint8_t packed_element(const uint8_t* data, int64_t i, int bits) noexcept {
  const int64_t per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>((i % per_byte) * bits);
  return static_cast<uint8_t>((data[i / per_byte] >> shift) & ((1u << bits) - 1u));
}
// Sets it; other elements of the byte are kept.
inline void set_packed_element(uint8_t* data, int64_t i, int bits, uint8_t value) noexcept {
  const int64_t per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>((i % per_byte) * bits);
  const unsigned mask = ((1u << bits) - 1u) << shift;
  uint8_t& byte = data[i / per_byte];
  byte = static_cast<uint8_t>((byte & ~mask) | ((static_cast<unsigned>(value) << shift) & mask));
}
// The low `bits` bits of `code` as a two's complement number.
inline int8_t sign_extend(uint8_t code, int bits) noexcept {
  const auto shift = static_cast<unsigned>(8 - bits);
  return static_cast<int8_t>(static_cast<int8_t>(static_cast<uint8_t>(code << shift)) >> shift);
}

}  // namespace attune
