#include "ops/support/small_types.h"

#include <cmath>
#include <limits>

#include "ops/kernel.h"

namespace attune {
namespace {

// A sign bit, exponent bits and mantissa bits.
struct Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;   // code of the largest finite value
  uint8_t infinity;  // 0: none
  uint8_t nan;       // 0: none
  bool signed_zero;
  bool signed_nan;
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat8E4M3FN:
      return {3, 7, 0x7e, 0, 0x7f, true, true};
    case DataType::kFloat8E4M3FNUZ:
      return {3, 8, 0x7f, 0, 0x80, false, false};
    case DataType::kFloat8E5M2:
      return {2, 15, 0x7b, 0x7c, 0x7e, true, true};
    case DataType::kFloat8E5M2FNUZ:
      return {2, 16, 0x7f, 0, 0x80, false, false};
    case DataType::kFloat6E2M3:
      return {3, 1, 0x1f, 0, 0, true, true};
    case DataType::kFloat6E3M2:
      return {2, 3, 0x1f, 0, 0, true, true};
    case DataType::kFloat4E2M1:
      return {1, 1, 0x07, 0, 0, true, true};
    default:
      fail_type(type);
  }
}

uint8_t sign_bit(DataType type) { return static_cast<uint8_t>(1 << (element_bits(type) - 1)); }

double magnitude_of(const Format& f, unsigned code) {
  const int exponent = static_cast<int>(code >> f.mantissa_bits);
  const auto mantissa = static_cast<double>(code & ((1u << f.mantissa_bits) - 1u));
  const double one = 1 << f.mantissa_bits;
  return exponent == 0 ? std::ldexp(mantissa / one, 1 - f.bias) : std::ldexp(1 + mantissa / one, exponent - f.bias);
}

// float8e8m0: 2^(code - 127); 255 is NaN.
uint8_t encode_e8m0(double value, const SmallFloatRounding& rounding) {
  constexpr uint8_t kNan = 255;
  if (std::isnan(value)) return kNan;
  value = std::abs(value);
  if (std::isinf(value)) return rounding.saturate ? 254 : kNan;
  if (value == 0) return rounding.saturate ? 0 : kNan;
  int exponent;
  const double fraction = std::frexp(value, &exponent) * 2;  // [1, 2)
  --exponent;
  const bool up = rounding.e8m0 == SmallFloatRounding::Mode::kUp
                      ? fraction > 1
                      : rounding.e8m0 == SmallFloatRounding::Mode::kNearest && fraction >= 1.5;
  const int code = exponent + (up ? 1 : 0) + 127;
  if (code < 0) return rounding.saturate ? 0 : kNan;
  if (code > 254) return rounding.saturate ? 254 : kNan;
  return static_cast<uint8_t>(code);
}

}  // namespace

bool is_small_float(DataType type) noexcept { return is_float(type) && element_bits(type) <= 8; }

float decode_small_float(DataType type, uint8_t code) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (type == DataType::kFloat8E8M0) return code == 255 ? kNan : static_cast<float>(std::ldexp(1.0, int{code} - 127));
  const Format f = format_of(type);
  const uint8_t sign = sign_bit(type);
  const unsigned magnitude = code & (sign - 1u);
  if (!f.signed_nan && code == f.nan) return kNan;
  double value;
  if (magnitude <= f.largest) {
    value = magnitude_of(f, magnitude);
  } else {
    value = f.infinity && magnitude == f.infinity ? std::numeric_limits<double>::infinity() : double{kNan};
  }
  return static_cast<float>(code & sign ? -value : value);
}

uint8_t encode_small_float(DataType type, double value, const SmallFloatRounding& rounding) {
  if (type == DataType::kFloat8E8M0) return encode_e8m0(value, rounding);
  const Format f = format_of(type);
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? sign_bit(type) : 0);
  const auto with_sign = [&](uint8_t code) {
    if (code == 0 && !f.signed_zero) return code;
    return static_cast<uint8_t>(code | sign);
  };
  const auto nan = [&] { return f.signed_nan ? static_cast<uint8_t>(f.nan | sign) : f.nan; };
  if (std::isnan(value)) return f.nan ? nan() : sign_bit(type);
  // float6 and float4 have neither infinity nor NaN: they always saturate.
  const auto too_large = [&]() -> uint8_t {
    if (rounding.saturate || !f.nan) return static_cast<uint8_t>(f.largest | sign);
    return f.infinity ? static_cast<uint8_t>(f.infinity | sign) : nan();
  };
  const double magnitude = std::abs(value);
  if (std::isinf(magnitude)) return too_large();
  if (magnitude == 0) return with_sign(0);
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  // In units of the last place; nearbyint rounds to even.
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  if (units >= std::ldexp(1.0, f.mantissa_bits + 1 + 8)) return too_large();
  // A carry into the next exponent carries into the code as well.
  const int code = ((exponent - (1 - f.bias)) << f.mantissa_bits) + static_cast<int>(units);
  return code > f.largest ? too_large() : with_sign(static_cast<uint8_t>(code));
}

}  // namespace attune
