#include "runtime/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/support/cast.h"

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

// All elements, whatever their type; a complex number is two.
std::vector<double> numbers(const Tensor& tensor) {
  Tensor t = tensor.to_contiguous();
  if (t.type() == DataType::kComplex64 || t.type() == DataType::kComplex128) {
    Shape parts = t.shape();
    parts.push_back(2);
    const DataType part = t.type() == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
    t = Tensor::from_buffer(part, parts, t.buffer(), static_cast<size_t>(t.raw() - t.buffer()->data()));
  }
  const Tensor doubles = cast(t, DataType::kDouble, nullptr);
  const auto values = doubles.values<double>();
  return {values.begin(), values.end()};
}

void compare_numbers(const Tensor& expected, const Tensor& found, const Tolerance& tolerance, Comparison& result) {
  const std::vector<double> x = numbers(expected), y = numbers(found);
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
    result.difference =
        fmt::format("element {}: expected {}, got {} ({} of {} elements differ)",
                    position(expected.shape(), first * static_cast<size_t>(expected.count()) / x.size()), x[first],
                    y[first], different, x.size());
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
  } else {
    compare_numbers(expected, found, tolerance, result);
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
