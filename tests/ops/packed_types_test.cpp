// Operators that move elements, on types whose elements share bytes.
#include "ops/support/packed_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/support/parts.h"
#include "tests/ops/node_runner.h"
#include "tests/support/error_matchers.h"

namespace attune::testing {
namespace {

using ::testing::ElementsAreArray;

using Codes = std::vector<int>;

// Codes as one stream of bits, low bits first.
Tensor packed(DataType type, const Shape& shape, const Codes& codes) {
  const int bits = element_bits(type);
  Tensor t = Tensor::allocate(type, shape);
  std::fill_n(t.mutable_raw(), t.bytes(), std::byte{0});
  for (size_t i = 0; i < codes.size(); ++i)
    for (int b = 0; b < bits; ++b) {
      const size_t at = i * static_cast<size_t>(bits) + static_cast<size_t>(b);
      if ((codes[i] >> b) & 1) t.mutable_raw()[at / 8] |= std::byte{1} << (at % 8);
    }
  return t;
}

Codes codes(const Tensor& t) {
  const int bits = element_bits(t.type());
  Codes out;
  for (int64_t i = 0; i < t.count(); ++i) {
    int code = 0;
    for (int b = 0; b < bits; ++b) {
      const auto at = static_cast<size_t>(i * bits + b);
      code |= std::to_integer<int>((t.raw()[at / 8] >> (at % 8)) & std::byte{1}) << b;
    }
    out.push_back(code);
  }
  return out;
}

Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

class PackedTypes : public ::testing::TestWithParam<DataType> {
 protected:
  // Counts up, modulo what the type holds: 3 rows of 5, so that rows start within bytes.
  Tensor counting() const { return packed(GetParam(), {3, 5}, counting_codes()); }
  Codes counting_codes() const {
    Codes c;
    for (int i = 0; i < 15; ++i) c.push_back(code(i + 1));
    return c;
  }
  int code(int value) const { return value % (1 << element_bits(GetParam())); }
  Codes coded(const std::vector<int>& values) const {
    Codes c;
    for (const int v : values) c.push_back(code(v));
    return c;
  }
  void expect(const Tensor& t, const Shape& shape, const std::vector<int>& values) const {
    EXPECT_EQ(t.type(), GetParam());
    EXPECT_EQ(t.shape(), shape);
    EXPECT_THAT(codes(t), ElementsAreArray(coded(values)));
  }
  Tensor run(const std::string& type, const std::vector<Tensor>& inputs, Attributes attributes = {}) const {
    return run_node({.type = type, .attributes = std::move(attributes), .opset = 24}, inputs).at(0).tensor();
  }
};

TEST_P(PackedTypes, Transpose) {
  expect(run("Transpose", {counting()}), {5, 3}, {1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14, 5, 10, 15});
}
TEST_P(PackedTypes, Gather) {
  expect(run("Gather", {counting(), ints({2, 0})}), {2, 5}, {11, 12, 13, 14, 15, 1, 2, 3, 4, 5});
  expect(run("Gather", {counting(), ints({-1})}, {{"axis", int64_t{1}}}), {3, 1}, {5, 10, 15});
}
TEST_P(PackedTypes, GatherElementsAndNd) {
  const Tensor index = Tensor::from<int64_t>({3, 1}, {4, 0, 2});
  expect(run("GatherElements", {counting(), index}, {{"axis", int64_t{1}}}), {3, 1}, {5, 6, 13});
  expect(run("GatherND", {counting(), Tensor::from<int64_t>({2, 2}, {0, 1, 2, 3})}), {2}, {2, 14});
}
TEST_P(PackedTypes, Concat) {
  const Tensor one = packed(GetParam(), {3, 1}, coded({3, 2, 1}));
  expect(run("Concat", {one, counting()}, {{"axis", int64_t{1}}}), {3, 6},
         {3, 1, 2, 3, 4, 5, 2, 6, 7, 8, 9, 10, 1, 11, 12, 13, 14, 15});
}
TEST_P(PackedTypes, Slice) {
  expect(run("Slice", {counting(), ints({1}), ints({2})}), {1, 5}, {6, 7, 8, 9, 10});
  expect(run("Slice", {counting(), ints({4}), ints({0}), ints({1}), ints({-2})}), {3, 2}, {5, 3, 10, 8, 15, 13});
}
TEST_P(PackedTypes, Split) {
  const auto parts =
      run_node({.type = "Split", .attributes = {{"axis", int64_t{1}}}, .outputs = 2}, {counting(), ints({1, 4})});
  expect(parts[0].tensor(), {3, 1}, {1, 6, 11});
  expect(parts[1].tensor(), {3, 4}, {2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15});
}
TEST_P(PackedTypes, ExpandAndTile) {
  const Tensor row = packed(GetParam(), {1, 3}, coded({1, 2, 3}));
  expect(run("Expand", {row, ints({2, 3})}), {2, 3}, {1, 2, 3, 1, 2, 3});
  expect(run("Tile", {row, ints({1, 2})}), {1, 6}, {1, 2, 3, 1, 2, 3});
}
TEST_P(PackedTypes, Pad) {
  const Tensor row = packed(GetParam(), {3}, coded({1, 2, 3}));
  expect(run("Pad", {row, ints({1, 2})}), {6}, {0, 1, 2, 3, 0, 0});
  expect(run("Pad", {row, ints({1, 0}), packed(GetParam(), {}, coded({2}))}), {4}, {2, 1, 2, 3});
  expect(run("Pad", {row, ints({1, 1})}, {{"mode", std::string("edge")}}), {5}, {1, 1, 2, 3, 3});
}
TEST_P(PackedTypes, Where) {
  const std::vector<uint8_t> flags{1, 0, 1};
  Tensor condition = Tensor::allocate(DataType::kBool, {3});
  for (size_t i = 0; i < 3; ++i) condition.mutable_data<bool>()[i] = flags[i] != 0;
  expect(run("Where", {condition, packed(GetParam(), {3}, coded({1, 2, 3})), packed(GetParam(), {1}, coded({0}))}), {3},
         {1, 0, 3});
}
TEST_P(PackedTypes, Scatter) {
  expect(run("ScatterND", {packed(GetParam(), {5}, coded({1, 1, 1, 1, 1})), Tensor::from<int64_t>({2, 1}, {3, 0}),
                           packed(GetParam(), {2}, coded({2, 3}))}),
         {5}, {3, 1, 1, 2, 1});
  expect(run("ScatterElements", {packed(GetParam(), {3}, coded({1, 2, 3})), ints({1}), packed(GetParam(), {1}, {0})}),
         {3}, {1, 0, 3});
}
TEST_P(PackedTypes, ReshapesShareTheirMemory) {
  expect(run("Reshape", {counting(), ints({5, -1})}), {5, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  expect(run("Unsqueeze", {packed(GetParam(), {3}, coded({1, 2, 3})), ints({0})}), {1, 3}, {1, 2, 3});
}
TEST_P(PackedTypes, DepthToSpace) {
  expect(run("DepthToSpace", {packed(GetParam(), {1, 4, 1, 1}, coded({1, 2, 3, 0}))}, {{"blocksize", int64_t{2}}}),
         {1, 1, 2, 2}, {1, 2, 3, 0});
}
TEST_P(PackedTypes, Trilu) {
  expect(run("Trilu", {packed(GetParam(), {2, 3}, coded({1, 2, 3, 1, 2, 3}))}), {2, 3}, {1, 2, 3, 0, 2, 3});
}
TEST_P(PackedTypes, PartsAndStacks) {
  expect(part_of(counting(), 0, 1, 1, nullptr), {1, 5}, {6, 7, 8, 9, 10});
  expect(element_of(counting(), 1, 2, nullptr), {3}, {3, 8, 13});
  const std::vector<Tensor> two{packed(GetParam(), {3}, coded({1, 2, 3})), packed(GetParam(), {3}, coded({3, 2, 1}))};
  expect(stack(two, 0, nullptr), {2, 3}, {1, 2, 3, 3, 2, 1});
  expect(stack(two, 1, nullptr), {3, 2}, {1, 3, 2, 2, 3, 1});
}
TEST_P(PackedTypes, Empty) {
  expect(run("Transpose", {packed(GetParam(), {0, 3}, {})}), {3, 0}, {});
  expect(run("Gather", {counting(), Tensor::from<int64_t>({0}, {})}), {0, 5}, {});
}

INSTANTIATE_TEST_SUITE_P(Types, PackedTypes,
                         ::testing::Values(DataType::kInt4, DataType::kUInt4, DataType::kInt2, DataType::kUInt2,
                                           DataType::kFloat4E2M1, DataType::kFloat6E2M3),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(PackedTypesErrors, NarrowTypesAreNotMixed) {
  const auto error = test::thrown([] {
    run_node({.type = "Concat", .attributes = {{"axis", int64_t{0}}}},
             {packed(DataType::kInt4, {1}, {1}), packed(DataType::kUInt4, {1}, {1})});
  });
  EXPECT_THAT(error, test::IsError(Error::Kind::kInvalidArgument, "input 1: expected int4, got uint4"));
}

TEST(PackedTypesErrors, SumsOfPackedElementsAreNotSupported) {
  const auto error = test::thrown([] {
    run_node(
        {.type = "ScatterND", .attributes = {{"reduction", std::string("add")}}},
        {packed(DataType::kInt4, {2}, {1, 1}), Tensor::from<int64_t>({1, 1}, {0}), packed(DataType::kInt4, {1}, {1})});
  });
  EXPECT_THAT(error, test::IsError(Error::Kind::kUnsupported, "int4"));
}

}  // namespace
}  // namespace attune::testing
