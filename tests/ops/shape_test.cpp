#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Shape, StartAndEnd) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(run({"Shape"}, {x}).to_int64(), (Ints{2, 3, 4}));
  struct Row {
    int64_t start, end;
    Ints want;
  };
  for (const Row& row :
       {Row{1, 3, {3, 4}}, Row{-1, 3, {4}}, Row{0, -1, {2, 3}}, Row{-9, 9, {2, 3, 4}}, Row{2, 1, {}}, Row{5, 9, {}}})
    EXPECT_EQ(run({"Shape", {{"start", row.start}, {"end", row.end}}}, {x}).to_int64(), row.want)
        << row.start << ":" << row.end;
  EXPECT_EQ(run({"Shape"}, {floats({}, {1})}).shape(), (Shape{0}));
}

TEST(Size, CountsElements) {
  EXPECT_EQ(difference(run({"Size"}, {counting({2, 3})}), Tensor::scalar<int64_t>(6)), "");
  EXPECT_EQ(difference(run({"Size"}, {floats({0, 3}, {})}), Tensor::scalar<int64_t>(0)), "");
}

}  // namespace
}  // namespace attune::testing
