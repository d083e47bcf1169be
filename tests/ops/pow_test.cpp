#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Pow, TypesOfBaseAndExponentMayDiffer) {
  const std::vector<DataType> types = {DataType::kFloat,    DataType::kDouble, DataType::kFloat16,
                                       DataType::kBFloat16, DataType::kInt32,  DataType::kInt64};
  for (const DataType base : types) {
    for (const DataType exponent : types) {
      const Tensor x = make(base, {2, 3}, {1, 2, 3, 4, 5, 6}), y = make(exponent, {3}, {0, 1, 3});
      const Tensor want = tabulate(base, {2, 3}, [&](const Shape& i) { return std::pow(at(x, i), at(y, i)); });
      EXPECT_EQ(difference(run({"Pow"}, {x, y}), want, epsilon(base)), "") << name(base) << " " << name(exponent);
    }
  }
}

TEST(Pow, ScalarExponents) {
  const Tensor x = floats({4}, {-2, 0.5, 3, 9});
  for (const double exponent : {2.0, 3.0, 1.0, 0.0, -1.0}) {
    const Tensor want = tabulate(DataType::kFloat, {4}, [&](const Shape& i) { return std::pow(at(x, i), exponent); });
    EXPECT_EQ(difference(run({"Pow"}, {x, floats({}, {exponent})}), want, 1e-6), "") << exponent;
  }
  // A negative base with a fraction is NaN.
  EXPECT_TRUE(std::isnan(run({"Pow"}, {floats({}, {-8}), floats({}, {0.5})}).to_double()[0]));
  EXPECT_EQ(difference(run({"Pow"}, {ints({1, -1, -1, 2, 0}), ints({-3, -3, -2, -1, 0})}), ints({1, -1, 1, 0, 1})), "");
}

}  // namespace
}  // namespace attune::testing
