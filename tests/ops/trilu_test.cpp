#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Trilu, DiagonalsOfBothTriangles) {
  for (const DataType type : {DataType::kBool, DataType::kFloat16, DataType::kFloat, DataType::kInt64}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 5, 3}, Shape{0, 3}, Shape{3, 0}}) {
      const Tensor x = tabulate(type, shape, [](const Shape&) { return 1; });
      for (const int64_t k : {-7, -2, -1, 0, 1, 3, 9})
        for (const bool upper : {true, false}) {
          const Tensor want = tabulate(type, shape, [&](const Shape& i) {
            const int64_t d = i[i.rank() - 1] - i[i.rank() - 2];
            return (upper ? d >= k : d <= k) ? 1 : 0;
          });
          const Tensor got = run({"Trilu", {{"upper", int64_t{upper}}}}, {x, Tensor::scalar(k)});
          EXPECT_EQ(difference(got, want), "") << shape.to_string() << k << upper;
        }
    }
  }
  const Tensor x = counting({2, 2});
  EXPECT_EQ(difference(run({"Trilu"}, {x}), floats({2, 2}, {0, 1, 0, 3})), "");
  EXPECT_EQ(difference(run({"Trilu"}, {x, Tensor::scalar(std::numeric_limits<int64_t>::min())}), x), "");
  EXPECT_NE(failure({"Trilu"}, {counting({3})}), "");
}

}  // namespace
}  // namespace attune::testing
