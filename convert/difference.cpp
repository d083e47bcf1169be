#include "convert/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/error.h"

namespace attune {

namespace {

// Numbers that stand for "excluded" say nothing about the size of the others.
constexpr double kFiller = 1e9;

double largest_below(const std::vector<double>& values, double bound) {
  double largest = 0;
  for (const double v : values)
    if (std::isfinite(v) && std::abs(v) < bound) largest = std::max(largest, std::abs(v));
  return largest;
}

}  // namespace

void compare_values(const std::vector<double>& a, const std::vector<double>& b, Difference& d) {
  double largest = largest_below(a, kFiller);
  const bool has_others = largest > 0;
  if (!has_others) largest = largest_below(a, INFINITY);
  d.largest = std::max(d.largest, largest);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || a[i] == b[i]) continue;
    double difference = std::isfinite(a[i]) && std::isfinite(b[i]) ? std::abs(a[i] - b[i]) : INFINITY;
    if (has_others && std::abs(a[i]) >= kFiller) difference *= d.largest / std::abs(a[i]);
    d.absolute = std::max(d.absolute, difference);
  }
}

Difference compare_data(const std::string& output, const Datum& a, const Datum& b) {
  Difference d;
  if (a.kind() != b.kind())
    throw Error(Error::Kind::kInternal, fmt::format("output '{}' is another kind of value", output));
  if (a.kind() != Datum::Kind::kTensor) {
    if (!a.defined()) return d;
    if (a.elements().size() != b.elements().size())
      throw Error(Error::Kind::kInternal, fmt::format("output '{}' has {} elements, the source's {}", output,
                                                      b.elements().size(), a.elements().size()));
    for (size_t i = 0; i < a.elements().size(); ++i) {
      const Difference e = compare_data(output, a.elements()[i], b.elements()[i]);
      d.absolute = std::max(d.absolute, e.absolute);
      d.largest = std::max(d.largest, e.largest);
    }
    return d;
  }
  const Tensor &x = a.tensor(), &y = b.tensor();
  const bool same_type = x.type() == y.type() || (x.type() == DataType::kFloat && is_half(y.type()));
  if (!same_type || !(x.shape() == y.shape()))
    throw Error(Error::Kind::kInternal,
                fmt::format("output '{}' is {}{}, the source's {}{}", output, attune::name(y.type()),
                            y.shape().to_string(), attune::name(x.type()), x.shape().to_string()));
  if (x.type() == DataType::kString) {
    d.absolute = x.strings() == y.strings() ? 0 : INFINITY;
    return d;
  }
  compare_values(x.to_double(), y.to_double(), d);
  return d;
}

}  // namespace attune
