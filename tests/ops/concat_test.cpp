#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Concat, EveryAxisAndWidth) {
  for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kFloat, DataType::kInt64}) {
    for (const int64_t axis : {0, 1, 2, -1, -3}) {
      const auto a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      Shape second = {2, 3, 4}, empty = second, out = second;
      second[a] = 5;
      empty[a] = 0;
      out[a] += 5;
      const Tensor x = counting({2, 3, 4}, type), y = counting(second, type), none = counting(empty, type);
      const Tensor want = tabulate(type, out, [&](const Shape& i) {
        Shape j = i;
        if (i[a] < x.dim(a)) return at(x, i);
        j[a] -= x.dim(a);
        return at(y, j);
      });
      EXPECT_EQ(difference(run({"Concat", {{"axis", axis}}}, {x, none, y}), want), "") << name(type) << axis;
    }
  }
}

TEST(Concat, StridedAndSingleInputs) {
  const Tensor memory = counting({2, 5});
  const Tensor view =
      Tensor::strided_view(DataType::kFloat, {2, 2}, {5, 1}, memory.buffer(), const_cast<std::byte*>(memory.raw()));
  EXPECT_EQ(difference(run({"Concat", {{"axis", int64_t{1}}}}, {view, floats({2, 1}, {8, 9})}),
                       floats({2, 3}, {0, 1, 8, 5, 6, 9})),
            "");
  EXPECT_EQ(run({"Concat", {{"axis", int64_t{0}}}}, {memory}).raw(), memory.raw());
  EXPECT_EQ(
      run({"Concat", {{"axis", int64_t{0}}}}, {Tensor::from_strings({1}, {"a"}), Tensor::from_strings({1}, {"b"})})
          .strings(),
      (std::vector<std::string>{"a", "b"}));
}

TEST(Concat, ErrorsNameTheInput) {
  const Call call{"Concat", {{"axis", int64_t{1}}}};
  EXPECT_THAT(failure(call, {counting({2, 3}), counting({3, 3})}), ::testing::HasSubstr("input 1"));
  EXPECT_THAT(failure(call, {counting({2, 3}), counting({2})}), ::testing::HasSubstr("input 1"));
  EXPECT_THAT(failure(call, {counting({2, 3}), counting({2, 3}, DataType::kInt8)}),
              ::testing::HasSubstr("input 1: expected float"));
}

}  // namespace
}  // namespace attune::testing
