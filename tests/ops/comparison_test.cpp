#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Comparison, EveryTypeWithBroadcast) {
  const std::vector<std::pair<std::string, std::function<bool(double, double)>>> operations = {
      {"Equal", [](double a, double b) { return a == b; }},
      {"Greater", [](double a, double b) { return a > b; }},
      {"GreaterOrEqual", [](double a, double b) { return a >= b; }},
      {"Less", [](double a, double b) { return a < b; }},
      {"LessOrEqual", [](double a, double b) { return a <= b; }}};
  for (const auto& [type, f] : operations) {
    for (const DataType element : numeric_types()) {
      const Tensor a = make(element, {4, 1}, {0, 1, 2, 100}), b = make(element, {3}, {1, 2, 90});
      const Tensor want = tabulate(DataType::kBool, {4, 3}, [&](const Shape& i) { return f(at(a, i), at(b, i)); });
      EXPECT_EQ(difference(run({type}, {a, b}), want), "") << type << " " << name(element);
    }
  }
  // Signed and unsigned order.
  EXPECT_EQ(
      difference(run({"Less"}, {make(DataType::kInt8, {1}, {-1}), make(DataType::kInt8, {1}, {1})}), bools({1}, {1})),
      "");
  EXPECT_EQ(difference(run({"Less"}, {make(DataType::kUInt8, {1}, {255}), make(DataType::kUInt8, {1}, {1})}),
                       bools({1}, {0})),
            "");
}

TEST(Comparison, NanBoolAndStrings) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DataType type : kFloatTypes) {
    const Tensor a = make(type, {3}, {nan, nan, 0}), b = make(type, {3}, {nan, 1, -0.0});
    EXPECT_EQ(difference(run({"Equal"}, {a, b}), bools({3}, {0, 0, 1})), "") << name(type);
    EXPECT_EQ(difference(run({"GreaterOrEqual"}, {a, b}), bools({3}, {0, 0, 1})), "") << name(type);
  }
  EXPECT_EQ(difference(run({"Equal"}, {bools({2}, {1, 0}), bools({}, {1})}), bools({2}, {1, 0})), "");
  const Tensor words = Tensor::from_strings({2, 1}, {"a", "bc"}), one = Tensor::from_strings({2}, {"bc", "a"});
  EXPECT_EQ(difference(run({"Equal"}, {words, one}), bools({2, 2}, {0, 1, 1, 0})), "");
}

// Also those whose number is the largest.
TEST(Comparison, TypesWithoutARowAreRefused) {
  for (const DataType type : {DataType::kFloat8E4M3FN, DataType::kInt4, DataType::kInt2, DataType::kFloat4E2M1,
                              DataType::kFloat6E2M3, DataType::kFloat6E3M2}) {
    const Tensor x = make(type, {2}, {0, 1});
    for (const char* op : {"Equal", "Less", "Add", "Neg"})
      EXPECT_NE(failure({op}, op == std::string("Neg") ? std::vector{x} : std::vector{x, x}), "") << op << name(type);
  }
}

}  // namespace
}  // namespace attune::testing
