#include "runtime/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attune {
namespace {

std::string_view kind_name(const Datum& d) {
  switch (d.kind()) {
    case Datum::Kind::kNone:
      return "nothing";
    case Datum::Kind::kTensor:
      return "a tensor";
    case Datum::Kind::kSequence:
      return "a sequence";
    case Datum::Kind::kOptional:
      return "an optional";
  }
  return "nothing";
}

std::string position(const Shape& shape, size_t index) {
  Shape at = shape;
  auto rest = static_cast<int64_t>(index);
  for (size_t axis = shape.rank(); axis-- > 0;) {
    at[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return at.to_string();
}

void compare_numbers(const Tensor& expected, const Tensor& found, const Tolerance& tolerance, Comparison& result) {
  const std::vector<double> x = expected.to_double(), y = found.to_double();
  size_t different = 0, first = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) {
      if (std::isfinite(x[i])) result.largest_expected = std::max(result.largest_expected, std::abs(x[i]));
      continue;
    }
    const bool finite = std::isfinite(x[i]) && std::isfinite(y[i]);
    const double distance = std::abs(x[i] - y[i]);
    if (finite) {
      result.largest_absolute = std::max(result.largest_absolute, distance);
      result.largest_expected = std::max(result.largest_expected, std::abs(x[i]));
    }
    if (finite && distance <= tolerance.absolute + tolerance.relative * std::abs(x[i])) continue;
    if (different++ == 0) first = i;
  }
  if (different > 0)
    result.difference = fmt::format("element {}: expected {}, got {} ({} of {} elements differ)",
                                    position(expected.shape(), first), x[first], y[first], different, x.size());
}

// Elements of types that have no arithmetic here agree if their bits do.
void compare_bits(const Tensor& expected, const Tensor& found, Comparison& result) {
  const size_t bytes = expected.bytes();
  const auto [x, y] = std::mismatch(expected.raw(), expected.raw() + bytes, found.raw());
  if (x != expected.raw() + bytes)
    result.difference = fmt::format("byte {} of {}: expected {:#04x}, got {:#04x}", x - expected.raw(),
                                    name(expected.type()), std::to_integer<int>(*x), std::to_integer<int>(*y));
}

bool has_doubles(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kBFloat16 || type == DataType::kBool || (is_integer(type) && element_bits(type) >= 8);
}

Comparison compare_tensors(const Tensor& expected, const Tensor& found, const Tolerance& tolerance) {
  Comparison result;
  if (expected.type() != found.type() || expected.shape() != found.shape()) {
    result.difference = fmt::format("expected {}{}, got {}{}", name(expected.type()), expected.shape().to_string(),
                                    name(found.type()), found.shape().to_string());
  } else if (expected.type() == DataType::kString) {
    const auto& x = expected.strings();
    const auto& y = found.strings();
    const auto at = static_cast<size_t>(std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin());
    if (at < x.size())
      result.difference =
          fmt::format("element {}: expected \"{}\", got \"{}\"", position(expected.shape(), at), x[at], y[at]);
  } else if (has_doubles(expected.type())) {
    compare_numbers(expected, found, tolerance, result);
  } else {
    compare_bits(expected.to_contiguous(), found.to_contiguous(), result);
  }
  return result;
}

}  // namespace

Comparison compare(const Datum& expected, const Datum& found, const Tolerance& tolerance) {
  if (expected.kind() == Datum::Kind::kTensor && found.kind() == Datum::Kind::kTensor)
    return compare_tensors(expected.tensor(), found.tensor(), tolerance);
  Comparison result;
  if (expected.kind() != found.kind()) {
    result.difference = fmt::format("expected {}, got {}", kind_name(expected), kind_name(found));
    return result;
  }
  if (expected.kind() == Datum::Kind::kNone) return result;
  const auto& x = expected.elements();
  const auto& y = found.elements();
  if (x.size() != y.size()) {
    result.difference = fmt::format("expected {} elements, got {}", x.size(), y.size());
    return result;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const Comparison inner = compare(x[i], y[i], tolerance);
    result.largest_absolute = std::max(result.largest_absolute, inner.largest_absolute);
    result.largest_expected = std::max(result.largest_expected, inner.largest_expected);
    if (result.equal() && !inner.equal()) result.difference = fmt::format("[{}] {}", i, inner.difference);
  }
  return result;
}

}  // namespace attune
