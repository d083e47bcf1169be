// Element types of at most a byte: float8, float6, float4, int4, int2.
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

bool is_small_float(DataType type) noexcept;  // float8*, float6*, float4e2m1
// The number that the low bits of `code` stand for. Formats: OCP 8-bit floating point, OCP microscaling, and
// ONNX's documentation of float8 for the FNUZ variants.
// Throw Error(kUnsupported) for other types.
float decode_small_float(DataType type, uint8_t code);
uint8_t encode_small_float(DataType type, double value, const SmallFloatRounding& rounding);

// Element i of packed elements of `bits` bits: one stream of bits, low bits first; those of 6 bits may lie in two
// bytes.
inline uint8_t packed_element(const uint8_t* data, int64_t i, int bits) noexcept {
  const int64_t byte = i * bits / 8;
  const auto shift = static_cast<int>(i * bits % 8);
  unsigned code = static_cast<unsigned>(data[byte]) >> shift;
  if (shift + bits > 8) code |= static_cast<unsigned>(data[byte + 1]) << (8 - shift);
  return static_cast<uint8_t>(code & ((1u << bits) - 1u));
}
// Sets it; other elements of its bytes are kept.
inline void set_packed_element(uint8_t* data, int64_t i, int bits, uint8_t value) noexcept {
  const int64_t byte = i * bits / 8;
  const auto shift = static_cast<int>(i * bits % 8);
  const unsigned mask = ((1u << bits) - 1u) << shift, code = (static_cast<unsigned>(value) << shift) & mask;
  const auto set = [](uint8_t& to, unsigned m, unsigned c) { to = static_cast<uint8_t>((to & ~m) | c); };
  set(data[byte], mask, code);
  if (shift + bits > 8) set(data[byte + 1], mask >> 8, code >> 8);
}
// The low `bits` bits of `code` as a two's complement number.
inline int8_t sign_extend(uint8_t code, int bits) noexcept {
  const auto shift = static_cast<unsigned>(8 - bits);
  return static_cast<int8_t>(static_cast<int8_t>(static_cast<uint8_t>(code << shift)) >> shift);
}

}  // namespace attune
