#include "ops/support/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/kernel.h"
#include "ops/support/half.h"
#include "ops/support/parallel.h"

namespace attune {
namespace {

template <class To, class From>
To cast_number(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Wide = std::conditional_t<sizeof(To) < 4, int32_t, To>;
    constexpr auto kLow = static_cast<From>(std::numeric_limits<Wide>::min());
    constexpr auto kHigh = static_cast<From>(std::numeric_limits<Wide>::max());
    if (!(x > kLow)) return x != x ? To{0} : static_cast<To>(std::numeric_limits<Wide>::min());
    if (x >= kHigh) return static_cast<To>(std::numeric_limits<Wide>::max());
    return static_cast<To>(static_cast<Wide>(x));
  } else {
    return static_cast<To>(x);
  }
}

// The float nearest to x whose last bit is set if it isn't exact: rounding it again to a half type rounds correctly.
float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x) || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  const bool too_large = std::abs(static_cast<double>(nearest)) > std::abs(x);
  bits = too_large ? bits - 1 : bits + 1;
  return std::bit_cast<float>(bits);
}

using Convert = void (*)(const std::byte* in, std::byte* out, int64_t n);

template <class From, class To>
void cast_rows(const std::byte* in, std::byte* out, int64_t n) {
  const auto* x = reinterpret_cast<const From*>(in);
  auto* y = reinterpret_cast<To*>(out);
  const auto count = static_cast<size_t>(n);
  constexpr size_t kBlock = 512;
  float block[kBlock];
  const auto blocks = [&](auto&& f) {
    for (size_t done = 0; done < count; done += kBlock) f(done, std::min(kBlock, count - done));
  };
  if constexpr (kIsHalf<From> && std::is_same_v<To, float>) {
    convert(x, y, count);
  } else if constexpr (kIsHalf<To> && std::is_same_v<From, float>) {
    convert(x, y, count);
  } else if constexpr (kIsHalf<From> && kIsHalf<To>) {
    blocks([&](size_t done, size_t m) {
      convert(x + done, block, m);
      convert(block, y + done, m);
    });
  } else if constexpr (kIsHalf<From>) {
    blocks([&](size_t done, size_t m) {
      convert(x + done, block, m);
      for (size_t i = 0; i < m; ++i) y[done + i] = cast_number<To>(block[i]);
    });
  } else if constexpr (kIsHalf<To>) {
    blocks([&](size_t done, size_t m) {
      for (size_t i = 0; i < m; ++i) {
        if constexpr (sizeof(From) <= 2)
          block[i] = static_cast<float>(x[done + i]);
        else
          block[i] = round_to_odd(static_cast<double>(x[done + i]));
      }
      convert(block, y + done, m);
    });
  } else {
    for (size_t i = 0; i < count; ++i) y[i] = cast_number<To>(x[i]);
  }
}

template <class From>
Convert to_type(DataType to) {
  switch (to) {
    case DataType::kFloat:
      return cast_rows<From, float>;
    case DataType::kDouble:
      return cast_rows<From, double>;
    case DataType::kFloat16:
      return cast_rows<From, Float16>;
    case DataType::kBFloat16:
      return cast_rows<From, BFloat16>;
    case DataType::kInt8:
      return cast_rows<From, int8_t>;
    case DataType::kInt16:
      return cast_rows<From, int16_t>;
    case DataType::kInt32:
      return cast_rows<From, int32_t>;
    case DataType::kInt64:
      return cast_rows<From, int64_t>;
    case DataType::kUInt8:
      return cast_rows<From, uint8_t>;
    case DataType::kUInt16:
      return cast_rows<From, uint16_t>;
    case DataType::kUInt32:
      return cast_rows<From, uint32_t>;
    case DataType::kUInt64:
      return cast_rows<From, uint64_t>;
    case DataType::kBool:
      return cast_rows<From, bool>;
    default:
      return nullptr;
  }
}

// The conversion between two types of a byte or more that C++ has; null for others.
Convert find_convert(DataType from, DataType to) {
  switch (from) {
    case DataType::kFloat:
      return to_type<float>(to);
    case DataType::kDouble:
      return to_type<double>(to);
    case DataType::kFloat16:
      return to_type<Float16>(to);
    case DataType::kBFloat16:
      return to_type<BFloat16>(to);
    case DataType::kInt8:
      return to_type<int8_t>(to);
    case DataType::kInt16:
      return to_type<int16_t>(to);
    case DataType::kInt32:
      return to_type<int32_t>(to);
    case DataType::kInt64:
      return to_type<int64_t>(to);
    case DataType::kUInt8:
      return to_type<uint8_t>(to);
    case DataType::kUInt16:
      return to_type<uint16_t>(to);
    case DataType::kUInt32:
      return to_type<uint32_t>(to);
    case DataType::kUInt64:
      return to_type<uint64_t>(to);
    case DataType::kBool:
      return to_type<bool>(to);
    default:
      return nullptr;
  }
}

bool is_small(DataType type) { return is_small_float(type) || (element_bits(type) > 0 && element_bits(type) < 8); }

// Small types as float, which holds all their values.
Tensor decode_small(const Tensor& in, BufferPool* pool) {
  Tensor out = Tensor::allocate(DataType::kFloat, in.shape(), pool);
  const auto* data = reinterpret_cast<const uint8_t*>(in.raw());
  float* y = out.mutable_data<float>();
  const int bits = element_bits(in.type());
  for (int64_t i = 0; i < in.count(); ++i) {
    const uint8_t code = bits == 8 ? data[i] : packed_element(data, i, bits);
    if (is_float(in.type())) {
      y[i] = decode_small_float(in.type(), code);
    } else {
      y[i] = is_signed_integer(in.type()) ? static_cast<float>(sign_extend(code, bits)) : static_cast<float>(code);
    }
  }
  return out;
}

// Numbers (as double) to a small type. Integers keep their low bits.
Tensor encode_small(const Tensor& numbers, DataType to, BufferPool* pool, const SmallFloatRounding& rounding) {
  Tensor out = Tensor::allocate(to, numbers.shape(), pool);
  auto* data = reinterpret_cast<uint8_t*>(out.mutable_raw());
  std::memset(data, 0, out.bytes());
  const double* x = numbers.data<double>();
  const int bits = element_bits(to);
  for (int64_t i = 0; i < numbers.count(); ++i) {
    const uint8_t code =
        is_float(to) ? encode_small_float(to, x[i], rounding) : static_cast<uint8_t>(cast_number<int64_t>(x[i]));
    if (bits == 8) {
      data[i] = code;
    } else {
      set_packed_element(data, i, bits, code);
    }
  }
  return out;
}

// A decimal number, or infinity or NaN in any case; integers in full precision.
template <class T>
T parse_number(const std::string& text) {
  const char* begin = text.data();
  const char* const end = begin + text.size();
  while (begin < end && (*begin == ' ' || *begin == '+')) ++begin;
  if constexpr (std::is_integral_v<T>) {
    T value{};
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc() && stop == end) return value;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) return cast_number<T>(std::strtod(text.c_str(), nullptr));
  if (error != std::errc() || stop != end)
    throw Error(Error::Kind::kInvalidArgument, fmt::format("'{}' is no number", text));
  return cast_number<T>(value);
}

Tensor parse(const Tensor& in, DataType to, BufferPool* pool, const SmallFloatRounding& rounding) {
  const auto& strings = in.strings();
  const auto fill = [&]<class T>() {
    Tensor out = Tensor::allocate(kDataTypeOf<T>, in.shape(), pool);
    for (size_t i = 0; i < strings.size(); ++i) out.mutable_data<T>()[i] = parse_number<T>(strings[i]);
    return out;
  };
  if (to == DataType::kInt64) return fill.template operator()<int64_t>();
  if (to == DataType::kUInt64) return fill.template operator()<uint64_t>();
  return cast(fill.template operator()<double>(), to, pool, rounding);
}

// The shortest decimal representation that reads back as the same value.
std::string format_number(double value, bool single) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  return single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

Tensor print(const Tensor& in) {
  std::vector<std::string> strings(static_cast<size_t>(in.count()));
  if (in.type() == DataType::kUInt64) {
    std::transform(in.values<uint64_t>().begin(), in.values<uint64_t>().end(), strings.begin(),
                   [](uint64_t x) { return std::to_string(x); });
  } else if (is_float(in.type())) {
    const auto numbers = in.to_double();
    std::transform(numbers.begin(), numbers.end(), strings.begin(),
                   [&](double x) { return format_number(x, in.type() != DataType::kDouble); });
  } else {
    const auto numbers = in.to_int64();
    std::transform(numbers.begin(), numbers.end(), strings.begin(), [](int64_t x) { return std::to_string(x); });
  }
  return Tensor::from_strings(in.shape(), std::move(strings));
}

}  // namespace

Tensor cast(const Tensor& in, DataType to, BufferPool* pool, const SmallFloatRounding& rounding) {
  const DataType from = in.type();
  if (from == to) return in;
  if (const Convert convert = find_convert(from, to)) {
    Tensor out = Tensor::allocate(to, in.shape(), pool);
    const size_t in_width = static_cast<size_t>(element_bits(from)) / 8,
                 out_width = static_cast<size_t>(element_bits(to)) / 8;
    const std::byte* x = in.raw();
    std::byte* y = out.mutable_raw();
    parallel_for(in.count(), kParallelGrain, [=](int64_t begin, int64_t end) {
      const auto first = static_cast<size_t>(begin);
      convert(x + first * in_width, y + first * out_width, end - begin);
    });
    return out;
  }
  if (from == DataType::kString) return parse(in, to, pool, rounding);
  if (is_small(from)) return cast(decode_small(in, pool), to, pool, rounding);
  if (is_small(to)) return encode_small(cast(in, DataType::kDouble, pool), to, pool, rounding);
  if (to == DataType::kString) return print(in);
  throw Error(Error::Kind::kUnsupported, fmt::format("no conversion from {} to {}", name(from), name(to)));
}

}  // namespace attune
