#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Cumulative, SumsAndProductsInEveryDirection) {
  for (const DataType type :
       {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kInt32, DataType::kInt64}) {
    const Tensor x = tabulate(type, {2, 3, 2}, [](const Shape& i) { return 1 + (i[0] + i[1] + 2 * i[2]) % 3; });
    for (const int64_t axis : {0, 1, 2, -1})
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const bool product : {false, true}) {
            const auto a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
            const Tensor want = tabulate(type, x.shape(), [&](const Shape& i) {
              double total = product ? 1 : 0;
              for (int64_t k = 0; k < x.dim(a); ++k) {
                const int64_t distance = reverse ? k - i[a] : i[a] - k;
                if (distance < (exclusive ? 1 : 0)) continue;
                Shape j = i;
                j[a] = k;
                total = product ? total * at(x, j) : total + at(x, j);
              }
              return total;
            });
            const Call call{
                product ? "CumProd" : "CumSum", {{"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}}, 26};
            EXPECT_EQ(difference(run(call, {x, Tensor::scalar(axis)}), want, epsilon(type)), "")
                << call.type << name(type) << axis;
          }
  }
  EXPECT_EQ(run({"CumSum"}, {floats({0, 2}, {}), Tensor::scalar<int64_t>(0)}).shape(), (Shape{0, 2}));
  EXPECT_NE(failure({"CumSum"}, {counting({2}), Tensor::scalar<int64_t>(1)}), "");
}

}  // namespace
}  // namespace attune::testing
