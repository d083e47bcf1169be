// For tests of operators: tensors from numbers, element-by-element references, comparison.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ops/support/cast.h"
#include "tests/ops/node_runner.h"

namespace attune::testing {

using Ints = std::vector<int64_t>;

// Numbers converted to `type`.
inline Tensor make(DataType type, const Shape& shape, const std::vector<double>& values) {
  return cast(Tensor::from<double>(shape, values), type, nullptr);
}
inline Tensor floats(const Shape& shape, const std::vector<double>& values) {
  return make(DataType::kFloat, shape, values);
}
inline Tensor ints(const Ints& values) { return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values); }
inline Tensor bools(const Shape& shape, const std::vector<double>& values) {
  return make(DataType::kBool, shape, values);
}

// A tensor whose element at each index is f(index).
inline Tensor tabulate(DataType type, const Shape& shape, const std::function<double(const Shape&)>& f) {
  std::vector<double> values;
  Shape index;
  index.resize(shape.rank(), 0);
  for (int64_t i = 0; i < shape.count(); ++i) {
    values.push_back(f(index));
    for (size_t d = shape.rank(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return make(type, shape, values);
}

// 0, 1, 2 ... in row-major order.
inline Tensor counting(const Shape& shape, DataType type = DataType::kFloat) {
  double next = 0;
  return tabulate(type, shape, [&](const Shape&) { return next++; });
}

// Element i in row-major order.
inline double number(const Tensor& t, int64_t i) {
  return dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                  uint64_t, bool>(t.type(), [&]<class T>() {
    using Number = std::conditional_t<sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;
    return static_cast<double>(static_cast<Number>(t.data<T>()[i]));
  });
}

// The element at an index, which is broadcast: aligned at the end, sizes of 1 repeat.
inline double at(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < t.rank(); ++i) {
    const int64_t position = t.dim(i) == 1 ? 0 : index[index.rank() - t.rank() + i];
    offset = offset * t.dim(i) + position;
  }
  return number(t, offset);
}

// Empty if `got` is `want` (NaN is NaN, -0 is 0); else where they differ. `tolerance` is relative to max(1, |want|).
inline std::string difference(const Tensor& got, const Tensor& want, double tolerance = 0) {
  if (got.type() != want.type()) return fmt::format("type {}, not {}", name(got.type()), name(want.type()));
  if (got.shape() != want.shape())
    return fmt::format("shape {}, not {}", got.shape().to_string(), want.shape().to_string());
  if (got.type() == DataType::kString) return got.strings() == want.strings() ? "" : "other strings";
  const Tensor x = cast(got, DataType::kDouble, nullptr), y = cast(want, DataType::kDouble, nullptr);
  for (int64_t i = 0; i < x.count(); ++i) {
    const double a = x.data<double>()[i], b = y.data<double>()[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))))
      return fmt::format("element {}: {}, not {}", i, a, b);
  }
  return "";
}

struct Call {
  std::string type;
  Attributes attributes = {};
  int64_t opset = 24;
  size_t outputs = 1;
};

inline std::vector<Datum> run_all(const Call& call, const std::vector<Tensor>& inputs) {
  return run_node({.type = call.type, .attributes = call.attributes, .opset = call.opset, .outputs = call.outputs},
                  inputs);
}
inline Tensor run(const Call& call, const std::vector<Tensor>& inputs) { return run_all(call, inputs)[0].tensor(); }

// The message of the Error that the call throws; empty if it throws none.
inline std::string failure(const Call& call, const std::vector<Tensor>& inputs) {
  try {
    run_all(call, inputs);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline const std::vector<DataType> kFloatTypes = {DataType::kFloat, DataType::kDouble, DataType::kFloat16,
                                                  DataType::kBFloat16};
inline const std::vector<DataType> kIntegerTypes = {DataType::kInt8,   DataType::kInt16, DataType::kInt32,
                                                    DataType::kInt64,  DataType::kUInt8, DataType::kUInt16,
                                                    DataType::kUInt32, DataType::kUInt64};
inline std::vector<DataType> numeric_types() {
  std::vector<DataType> types = kFloatTypes;
  types.insert(types.end(), kIntegerTypes.begin(), kIntegerTypes.end());
  return types;
}
// Relative rounding error of a type, 0 for integers.
inline double epsilon(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 1e-6;
    case DataType::kDouble:
      return 1e-14;
    case DataType::kFloat16:
      return 1e-3;
    case DataType::kBFloat16:
      return 8e-3;
    default:
      return 0;
  }
}

}  // namespace attune::testing
