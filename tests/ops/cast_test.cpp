#include <limits>

#include "ops/support/small_types.h"
#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Call cast_to(DataType type, bool saturate = true) {
  return {"Cast", {{"to", static_cast<int64_t>(type)}, {"saturate", int64_t{saturate}}}};
}

TEST(Cast, SmallIntegersSurviveEveryPairOfTypes) {
  std::vector<DataType> types = numeric_types();
  for (const DataType type : {DataType::kFloat8E4M3FN, DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2,
                              DataType::kFloat8E5M2FNUZ, DataType::kFloat6E2M3, DataType::kFloat6E3M2,
                              DataType::kFloat4E2M1, DataType::kInt4, DataType::kUInt4, DataType::kUInt2})
    types.push_back(type);
  for (const DataType from : types) {
    for (const DataType to : types) {
      const Tensor x = make(from, {5}, {0, 1, 2, 3, 1}), want = make(to, {5}, {0, 1, 2, 3, 1});
      EXPECT_EQ(difference(run(cast_to(to), {x}), want), "") << name(from) << " to " << name(to);
    }
    EXPECT_EQ(difference(run(cast_to(DataType::kBool), {make(from, {3}, {0, 1, 2})}), bools({3}, {0, 1, 1})), "")
        << name(from);
    EXPECT_EQ(difference(run(cast_to(from), {bools({2}, {0, 1})}), make(from, {2}, {0, 1})), "") << name(from);
  }
}

TEST(Cast, IntegersKeepTheirLowBits) {
  const Tensor x = Tensor::from<int32_t>({4}, {200, -1, 70000, 256});
  EXPECT_EQ(difference(run(cast_to(DataType::kInt8), {x}), Tensor::from<int8_t>({4}, {-56, -1, 112, 0})), "");
  EXPECT_EQ(difference(run(cast_to(DataType::kUInt16), {x}), Tensor::from<uint16_t>({4}, {200, 65535, 4464, 256})), "");
  EXPECT_EQ(difference(run(cast_to(DataType::kUInt64), {Tensor::from<int64_t>({1}, {-1})}),
                       Tensor::from<uint64_t>({1}, {~uint64_t{0}})),
            "");
}

TEST(Cast, FloatsTruncateAndNeverTrap) {
  const Tensor x = floats({6}, {2.9, -2.9, 1e30, -1e30, kNan, kInfinity});
  constexpr auto kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(run(cast_to(DataType::kInt64), {x}).to_int64(), (Ints{2, -2, kMax, kMin, 0, kMax}));
  EXPECT_EQ(difference(run(cast_to(DataType::kBool), {floats({4}, {0, -0.0, 0.1, kNan})}), bools({4}, {0, 0, 1, 1})),
            "");
}

TEST(Cast, HalfTypesRoundOnceToNearestEven) {
  // 2049 lies between 2048 and 2050; 1 + 2^-11 + 2^-40 is just above the middle of two float16 values, which a
  // detour over float would lose.
  const Tensor x = Tensor::from<double>({4}, {2049, 2051, 1 + 0x1p-11 + 0x1p-40, 65520});
  EXPECT_EQ(difference(run(cast_to(DataType::kFloat16), {x}),
                       make(DataType::kFloat16, {4}, {2048, 2052, 1 + 0x1p-10, kInfinity})),
            "");
  EXPECT_EQ(run(cast_to(DataType::kFloat16), {x}).to_double()[2], 1 + 0x1p-10);
  EXPECT_EQ(run(cast_to(DataType::kFloat16), {Tensor::from<int32_t>({1}, {2049})}).to_double()[0], 2048);
  EXPECT_EQ(run(cast_to(DataType::kFloat), {make(DataType::kFloat16, {1}, {0x1p-24})}).to_double()[0], 0x1p-24);
}

TEST(Cast, Float8RoundsSaturatesAndHasItsSpecialValues) {
  struct Row {
    DataType type;
    double largest;
    bool infinity;
  };
  for (const Row& row : {Row{DataType::kFloat8E4M3FN, 448, false}, Row{DataType::kFloat8E4M3FNUZ, 240, false},
                         Row{DataType::kFloat8E5M2, 57344, true}, Row{DataType::kFloat8E5M2FNUZ, 57344, false}}) {
    const Tensor x = floats({5}, {1e9, -kInfinity, kNan, -0.0, row.largest});
    const auto back = [&](bool saturate) {
      return run(cast_to(DataType::kFloat), {run(cast_to(row.type, saturate), {x})});
    };
    EXPECT_EQ(difference(back(true), floats({5}, {row.largest, -row.largest, kNan, 0, row.largest})), "")
        << name(row.type);
    const double over = row.infinity ? kInfinity : kNan;
    EXPECT_EQ(difference(back(false), floats({5}, {over, -over, kNan, 0, row.largest})), "") << name(row.type);
  }
  for (const DataType type :
       {DataType::kFloat8E4M3FN, DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2, DataType::kFloat8E5M2FNUZ,
        DataType::kFloat8E8M0, DataType::kFloat6E2M3, DataType::kFloat6E3M2, DataType::kFloat4E2M1}) {
    const int codes = 1 << element_bits(type);
    for (int code = 0; code < codes; ++code) {
      const float value = decode_small_float(type, static_cast<uint8_t>(code));
      if (std::isnan(value) || value == 0) continue;
      EXPECT_EQ(encode_small_float(type, value, {.saturate = false}), code) << name(type) << " " << value;
    }
  }
}

// The values of ONNX's reference (ml_dtypes), which are those of OCP's microscaling formats.
TEST(Cast, Float6RoundsToEvenAndSaturates) {
  const std::vector<double> x{7.5, -7.5, 7.75, 1e9, -kInfinity, kNan, 0.0625, 0.03, 0.07, 3.3, 5.25, 28, 30, 1.0625};
  const auto rounded = [&](DataType type) {
    return run(cast_to(DataType::kFloat), {run(cast_to(type), {floats({14}, x)})});
  };
  EXPECT_EQ(difference(rounded(DataType::kFloat6E2M3),
                       floats({14}, {7.5, -7.5, 7.5, 7.5, -7.5, 0, 0, 0, 0.125, 3.25, 5, 7.5, 7.5, 1})),
            "");
  EXPECT_EQ(difference(rounded(DataType::kFloat6E3M2),
                       floats({14}, {8, -8, 8, 28, -28, 0, 0.0625, 0, 0.0625, 3.5, 5, 28, 28, 1})),
            "");
  const Call quantize{"QuantizeLinear", {{"output_dtype", static_cast<int64_t>(DataType::kFloat6E2M3)}}};
  const Tensor codes = run(quantize, {floats({3}, {15, -5, 3}), floats({}, {2})});
  EXPECT_EQ(codes.bytes(), 3u);
  EXPECT_EQ(difference(run({"DequantizeLinear"}, {codes, floats({}, {2})}), floats({3}, {15, -5, 3})), "");
}

TEST(Cast, PackedTypes) {
  const Tensor x = floats({5}, {-8, 7, -1, 0, 3});
  const Tensor packed = run(cast_to(DataType::kInt4), {x});
  EXPECT_EQ(packed.bytes(), 3u);
  EXPECT_EQ(static_cast<int>(packed.raw()[0]), 0x78);
  EXPECT_EQ(difference(run(cast_to(DataType::kFloat), {packed}), x), "");
  const Tensor two = floats({5}, {-2, 1, -1, 0, 1});
  EXPECT_EQ(difference(run(cast_to(DataType::kFloat), {run(cast_to(DataType::kInt2), {two})}), two), "");
}

TEST(Cast, Strings) {
  const Tensor words = Tensor::from_strings({6}, {"3.5", "1e-5", "-INF", "nan", "+inf", "100"});
  EXPECT_EQ(difference(run(cast_to(DataType::kDouble), {words}),
                       Tensor::from<double>({6}, {3.5, 1e-5, -kInfinity, kNan, kInfinity, 100})),
            "");
  EXPECT_EQ(run(cast_to(DataType::kInt64), {Tensor::from_strings({1}, {"9007199254740993"})}).to_int64()[0],
            9007199254740993);
  EXPECT_EQ(run(cast_to(DataType::kString), {floats({4}, {0.1, 2, -kInfinity, kNan})}).strings(),
            (std::vector<std::string>{"0.1", "2", "-INF", "NaN"}));
  EXPECT_EQ(run(cast_to(DataType::kString), {ints({-7})}).strings()[0], "-7");
  EXPECT_THAT(failure(cast_to(DataType::kFloat), {Tensor::from_strings({}, {"Hello"})}),
              ::testing::HasSubstr("'Hello'"));
}

TEST(Cast, CastLikeBitCastAndRefusals) {
  EXPECT_EQ(difference(run({"CastLike"}, {floats({2}, {1.5, 2.5}), ints({})}), ints({1, 2})), "");
  const Call bits{"BitCast", {{"to", static_cast<int64_t>(DataType::kInt32)}}, 26};
  EXPECT_EQ(difference(run(bits, {floats({2}, {1, -2})}), Tensor::from<int32_t>({2}, {0x3f800000, -0x40000000})), "");
  EXPECT_THAT(failure(bits, {ints({1})}), ::testing::HasSubstr("32 bits"));
  EXPECT_THAT(failure({"Cast", {{"to", int64_t{99}}}}, {ints({1})}), ::testing::HasSubstr("99"));
  EXPECT_THAT(failure(cast_to(DataType::kComplex64), {ints({1})}), ::testing::HasSubstr("complex64"));
}

}  // namespace
}  // namespace attune::testing
