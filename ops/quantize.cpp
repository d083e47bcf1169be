// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/dynamic_quantize.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/small_types.h"

namespace attune {
namespace {

// Which scale belongs to which element: one for all, one for each index of an axis, or one for each block along it.
struct ScaleMap {
  int64_t outer = 1, n = 1, inner = 1;  // sizes before, of and after the axis
  int64_t block = 0;                    // 0: not blocked
  bool single = true;
  int64_t blocks() const { return block ? (n + block - 1) / block : 0; }
  // The scale of element (o, k, j).
  int64_t index(int64_t o, int64_t k, int64_t j) const {
    if (single) return 0;
    return block ? (o * blocks() + k / block) * inner + j : k;
  }
};

ScaleMap scale_map(const Shape& shape, const Tensor& scale, int64_t axis_attribute, int64_t block) {
  ScaleMap m;
  if (scale.count() == 1 && block == 0) {
    m.n = 1;
    m.inner = shape.count();
    return m;
  }
  const size_t axis = normalize_axis(axis_attribute, shape.rank());
  m = {shape.count(0, axis), shape[axis], shape.count(axis + 1, shape.rank()), block, false};
  if (block == 0) {
    if (scale.rank() != 1 || scale.count() != m.n)
      fail_input(1, fmt::format("1 or {} scales", m.n), scale.shape().to_string());
  } else {
    Shape expected = shape;
    expected[axis] = m.blocks();
    if (!(scale.shape() == expected)) fail_input(1, expected.to_string(), scale.shape().to_string());
  }
  return m;
}

// Calls f(element index, scale index) for all elements, in parallel over the rows of the innermost axes.
template <class F>
void for_each_scaled(const ScaleMap& m, F&& f) {
  if (m.single) {
    parallel_items(m.inner, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i, int64_t{0});
    });
    return;
  }
  for (int64_t row = 0; row < m.outer * m.n; ++row) {
    const int64_t o = row / m.n, k = row % m.n;
    for (int64_t j = 0; j < m.inner; ++j) f(row * m.inner + j, m.index(o, k, j));
  }
}

struct IntegerRange {
  int64_t low, high;
};

// The range of an integer type of at most 16 bits.
IntegerRange range_of(DataType type) {
  const int bits = element_bits(type);
  if (is_signed_integer(type)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

// Element i of an integer tensor of any type up to 32 bits, or the code of a small float.
int64_t read_element(const Tensor& t, int64_t i) {
  switch (t.type()) {
    case DataType::kUInt8:
      return t.data<uint8_t>()[i];
    case DataType::kInt8:
      return t.data<int8_t>()[i];
    case DataType::kUInt16:
      return t.data<uint16_t>()[i];
    case DataType::kInt16:
      return t.data<int16_t>()[i];
    case DataType::kInt32:
      return t.data<int32_t>()[i];
    default: {
      const int bits = element_bits(t.type());
      const uint8_t code = packed_element(reinterpret_cast<const uint8_t*>(t.raw()), i, bits);
      return is_signed_integer(t.type()) ? sign_extend(code, bits) : code;
    }
  }
}

void write_element(Tensor& t, int64_t i, int64_t value) {
  switch (element_bits(t.type())) {
    case 8:
      reinterpret_cast<uint8_t*>(t.mutable_raw())[i] = static_cast<uint8_t>(value);
      break;
    case 16:
      reinterpret_cast<uint16_t*>(t.mutable_raw())[i] = static_cast<uint16_t>(value);
      break;
    default:
      set_packed_element(reinterpret_cast<uint8_t*>(t.mutable_raw()), i, element_bits(t.type()),
                         static_cast<uint8_t>(value));
  }
}

// Zero points of integer types; 0 if there are none or they are floats (whose zero point must be 0).
std::vector<int64_t> zero_points(const Tensor* zero) {
  std::vector<int64_t> all;
  if (!zero || !is_integer(zero->type())) return all;
  for (int64_t i = 0; i < zero->count(); ++i) all.push_back(read_element(*zero, i));
  return all;
}

class QuantizeKernel : public Kernel {
 public:
  explicit QuantizeKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 1)),
        block_(context.node().attr_int("block_size", 0)),
        type_(static_cast<DataType>(context.node().attr_int("output_dtype", 0))),
        saturate_(context.node().attr_int("saturate", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor &x = call.input(0), &scale_tensor = call.input(1);
    const Tensor* zero_tensor = call.optional_input(2);
    const DataType type = zero_tensor ? zero_tensor->type() : type_ != DataType::kUndefined ? type_ : DataType::kUInt8;
    const ScaleMap map = scale_map(x.shape(), scale_tensor, axis_, block_);
    if (zero_tensor && zero_tensor->count() != scale_tensor.count())
      fail_input(2, fmt::format("{} zero points", scale_tensor.count()), zero_tensor->shape().to_string());
    const FloatView<float> scale(scale_tensor, call.pool());
    const std::vector<int64_t> zero = zero_points(zero_tensor);
    const bool wide = x.type() == DataType::kInt32;
    const FloatView<float> floats = wide ? FloatView<float>() : FloatView<float>(x, call.pool());
    const auto value = [&](int64_t i) { return wide ? static_cast<float>(x.data<int32_t>()[i]) : floats[i]; };
    Tensor& y = call.output(0, type, x.shape());
    if (is_small_float(type)) {
      const SmallFloatRounding rounding{.saturate = saturate_};
      // Packed elements share bytes: one thread. The zero point, which is 0, makes -0 to 0.
      for_each_serial(map, [&](int64_t i, int64_t s) {
        write_element(y, i, encode_small_float(type, static_cast<double>(value(i) / scale[s]) + 0.0, rounding));
      });
      return;
    }
    if (!is_integer(type) || element_bits(type) > 16) fail_type(type);
    const IntegerRange range = range_of(type);
    const auto quantized = [&](int64_t i, int64_t s) {
      const int64_t z = zero.empty() ? 0 : zero[static_cast<size_t>(s)];
      const double v = static_cast<double>(std::nearbyint(value(i) / scale[s])) + static_cast<double>(z);
      return static_cast<int64_t>(
          std::clamp(std::isnan(v) ? 0.0 : v, static_cast<double>(range.low), static_cast<double>(range.high)));
    };
    if (element_bits(type) < 8) {
      for_each_serial(map, [&](int64_t i, int64_t s) { write_element(y, i, quantized(i, s)); });
    } else {
      for_each_scaled(map, [&](int64_t i, int64_t s) { write_element(y, i, quantized(i, s)); });
    }
  }

 private:
  template <class F>
  static void for_each_serial(const ScaleMap& m, F&& f) {
    for (int64_t row = 0; row < m.outer * m.n; ++row)
      for (int64_t j = 0; j < m.inner; ++j) f(row * m.inner + j, m.index(row / m.n, row % m.n, j));
  }

  int64_t axis_, block_;
  DataType type_;
  bool saturate_;
};

class DequantizeKernel : public Kernel {
 public:
  explicit DequantizeKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 1)),
        block_(context.node().attr_int("block_size", 0)),
        type_(static_cast<DataType>(context.node().attr_int("output_dtype", 0))) {}

  void run(KernelCall& call) const override {
    const Tensor &x = call.input(0), &scale_tensor = call.input(1);
    const Tensor* zero_tensor = call.optional_input(2);
    const ScaleMap map = scale_map(x.shape(), scale_tensor, axis_, block_);
    if (zero_tensor && zero_tensor->count() != scale_tensor.count())
      fail_input(2, fmt::format("{} zero points", scale_tensor.count()), zero_tensor->shape().to_string());
    if (zero_tensor && zero_tensor->type() != x.type()) fail_input(2, name(x.type()), name(zero_tensor->type()));
    const FloatView<float> scale(scale_tensor, call.pool());
    FloatResult<float> y(call, 0, type_ != DataType::kUndefined ? type_ : scale_tensor.type(), x.shape());
    float* to = y.data();
    const DataType type = x.type();
    if (is_small_float(type)) {
      for_each_scaled(map, [&](int64_t i, int64_t s) {
        to[i] = decode_small_float(type, static_cast<uint8_t>(read_element(x, i))) * scale[s];
      });
    } else {
      if (!is_integer(type) || element_bits(type) > 32) fail_type(type);
      const std::vector<int64_t> zero = zero_points(zero_tensor);
      const auto dequantize = [&](auto&& read) {
        for_each_scaled(map, [&](int64_t i, int64_t s) {
          to[i] = static_cast<float>(read(i) - (zero.empty() ? 0 : zero[static_cast<size_t>(s)])) * scale[s];
        });
      };
      if (type == DataType::kInt8) {
        dequantize([p = x.data<int8_t>()](int64_t i) { return int64_t{p[i]}; });
      } else if (type == DataType::kUInt8) {
        dequantize([p = x.data<uint8_t>()](int64_t i) { return int64_t{p[i]}; });
      } else {
        dequantize([&](int64_t i) { return read_element(x, i); });
      }
    }
    y.store(call);
  }

 private:
  int64_t axis_, block_;
  DataType type_;
};

class DynamicQuantizeKernel : public Kernel {
 public:
  explicit DynamicQuantizeKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    expect_type(x, 0, DataType::kFloat);
    Tensor& y = call.output(0, DataType::kUInt8, x.shape());
    const DynamicQuantization q = dynamic_quantize(x.data<float>(), x.count(), y.mutable_data<uint8_t>());
    if (call.wants(1)) call.output(1, DataType::kFloat, {}).mutable_data<float>()[0] = q.scale;
    if (call.wants(2)) call.output(2, DataType::kUInt8, {}).mutable_data<uint8_t>()[0] = q.zero_point;
  }
};

}  // namespace

std::vector<OpDef> ops_in_quantize();
std::vector<OpDef> ops_in_quantize() {
  return {{"", "QuantizeLinear", 10, prepare<QuantizeKernel>},
          {"", "DequantizeLinear", 10, prepare<DequantizeKernel>},
          {"", "DynamicQuantizeLinear", 11, prepare<DynamicQuantizeKernel>},
          {"com.microsoft", "QuantizeLinear", 1, prepare<QuantizeKernel>},
          {"com.microsoft", "DequantizeLinear", 1, prepare<DequantizeKernel>}};
}

}  // namespace attune
