#include <algorithm>
#include <numeric>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

Tensor expected(const Tensor& x, const Ints& permutation) {
  Shape shape;
  for (const int64_t axis : permutation) shape.push_back(x.dim(static_cast<size_t>(axis)));
  return tabulate(x.type(), shape, [&](const Shape& i) {
    Shape source = i;
    for (size_t d = 0; d < permutation.size(); ++d) source[static_cast<size_t>(permutation[d])] = i[d];
    return at(x, source);
  });
}

TEST(Transpose, EveryPermutationOfFourAxesAndWidth) {
  for (const DataType type :
       {DataType::kInt8, DataType::kFloat16, DataType::kFloat, DataType::kDouble, DataType::kBool}) {
    const Tensor x = counting({2, 3, 5, 4}, type);
    Ints permutation = {0, 1, 2, 3};
    do {
      EXPECT_EQ(difference(run({"Transpose", {{"perm", permutation}}}, {x}), expected(x, permutation)), "")
          << fmt::format("{}", fmt::join(permutation, ","));
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TEST(Transpose, TilesWithRests) {
  for (const Shape& shape : {Shape{37, 53}, Shape{16, 8}, Shape{3, 200}, Shape{130, 1}, Shape{1, 9}, Shape{0, 4}})
    EXPECT_EQ(difference(run({"Transpose"}, {counting(shape)}), expected(counting(shape), {1, 0})), "")
        << shape.to_string();
  const Tensor x = counting({2, 41, 3, 35});
  EXPECT_EQ(difference(run({"Transpose", {{"perm", Ints{0, 2, 3, 1}}}}, {x}), expected(x, {0, 2, 3, 1})), "");
}

TEST(Transpose, SharesMemoryIfOnlySizesOfOneMove) {
  const Tensor x = counting({2, 1, 3});
  EXPECT_EQ(run({"Transpose", {{"perm", Ints{1, 0, 2}}}}, {x}).raw(), x.raw());
  EXPECT_EQ(run({"Transpose"}, {floats({}, {1})}).shape(), Shape());
}

TEST(Transpose, StridedInput) {
  const Tensor memory = counting({2, 5, 3});
  const Tensor view = Tensor::strided_view(DataType::kFloat, {2, 2, 3}, {15, 3, 1}, memory.buffer(),
                                           const_cast<std::byte*>(memory.raw()) + 3 * sizeof(float));
  EXPECT_EQ(
      difference(run({"Transpose", {{"perm", Ints{1, 0, 2}}}}, {view}), expected(view.to_contiguous(), {1, 0, 2})), "");
}

TEST(Transpose, StringsAndErrors) {
  EXPECT_EQ(run({"Transpose"}, {Tensor::from_strings({2, 2}, {"a", "b", "c", "d"})}).strings(),
            (std::vector<std::string>{"a", "c", "b", "d"}));
  EXPECT_THAT(failure({"Transpose", {{"perm", Ints{0, 1}}}}, {counting({2})}), ::testing::HasSubstr("rank 2"));
  EXPECT_NE(failure({"Transpose", {{"perm", Ints{0, 0}}}}, {counting({2, 2})}), "");
}

}  // namespace
}  // namespace attune::testing
