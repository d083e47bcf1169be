#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operation {
  std::string type;
  std::function<double(double, double)> f;
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Mod", [](double a, double b) { return a - b * std::floor(a / b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Sum", [](double a, double b) { return a + b; }},
  };
  return all;
}

TEST(Arithmetic, BroadcastsEveryTypeAsTheReference) {
  const std::vector<std::pair<Shape, Shape>> shapes = {{{}, {}},         {{5}, {}},
                                                       {{}, {3}},        {{2, 3}, {2, 3}},
                                                       {{2, 3}, {3}},    {{2, 1, 3}, {4, 1}},
                                                       {{3, 1}, {1, 4}}, {{1, 1, 37}, {2, 5, 1}},
                                                       {{0, 3}, {1, 3}}, {{2, 3, 1, 5}, {3, 4, 1}}};
  for (const Operation& op : operations()) {
    for (const DataType type : numeric_types()) {
      for (const auto& [a_shape, b_shape] : shapes) {
        // Small positive numbers, a above b, so that every type holds every result.
        const Tensor a = tabulate(type, a_shape, [](const Shape& i) { return 7 + (i.rank() ? i.back() % 5 : 2); });
        const Tensor b =
            tabulate(type, b_shape, [](const Shape& i) { return 1 + (i.rank() ? (i.front() + i.back()) % 6 : 3); });
        const Tensor want =
            tabulate(type, broadcast(a_shape, b_shape), [&](const Shape& i) { return op.f(at(a, i), at(b, i)); });
        EXPECT_EQ(difference(run({op.type}, {a, b}), want, epsilon(type)), "")
            << op.type << " " << name(type) << " " << a_shape.to_string() << " " << b_shape.to_string();
      }
    }
  }
}

TEST(Arithmetic, IntegersWrapTruncateAndNeverTrap) {
  const auto i8 = [](const std::vector<double>& v) {
    return make(DataType::kInt8, {static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_EQ(difference(run({"Add"}, {i8({127, -128}), i8({1, -1})}), i8({-128, 127})), "");
  EXPECT_EQ(difference(run({"Mul"}, {i8({100, -128}), i8({3, -1})}), i8({44, -128})), "");
  EXPECT_EQ(
      difference(run({"Div"}, {i8({7, -7, 7, -7, 5, -128}), i8({2, 2, -2, -2, 0, -1})}), i8({3, -3, -3, 3, 0, -128})),
      "");
  EXPECT_EQ(
      difference(run({"Mod"}, {i8({7, -7, 7, -7, 5, -128}), i8({3, 3, -3, -3, 0, -1})}), i8({1, 2, -2, -1, 0, 0})), "");
  const Call fmod{"Mod", {{"fmod", int64_t{1}}}};
  EXPECT_EQ(difference(run(fmod, {i8({7, -7, 7, -7, 5}), i8({3, 3, -3, -3, 0})}), i8({1, -1, 1, -1, 0})), "");
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(difference(run({"Div"}, {ints({lowest}), ints({-1})}), ints({lowest})), "");
}

TEST(Arithmetic, FloatsFollowIeee) {
  const Tensor x = floats({5}, {1, -1, 0, kInfinity, 5.3}), y = floats({5}, {0, 0, 0, kInfinity, -2});
  EXPECT_EQ(difference(run({"Div"}, {x, y}), floats({5}, {kInfinity, -kInfinity, kNan, kNan, -2.65}), 1e-6), "");
  EXPECT_EQ(difference(run({"Mod", {{"fmod", int64_t{1}}}}, {floats({2}, {5.5, -5.5}), floats({2}, {2, 2})}),
                       floats({2}, {1.5, -1.5})),
            "");
  EXPECT_EQ(difference(run({"Mod"}, {floats({2}, {5.5, -5.5}), floats({2}, {2, 2})}), floats({2}, {1.5, 0.5})), "");
  const Tensor a = floats({4}, {kNan, 1, kNan, 2}), b = floats({4}, {1, kNan, kNan, 3});
  EXPECT_EQ(difference(run({"Min"}, {a, b}), floats({4}, {kNan, kNan, kNan, 2})), "");
  EXPECT_EQ(difference(run({"Max"}, {a, b}), floats({4}, {kNan, kNan, kNan, 3})), "");
}

TEST(Arithmetic, VariadicsTakeAnyNumberOfInputs) {
  const Tensor a = floats({2, 1}, {1, 6}), b = floats({3}, {3, 2, 1}), c = floats({}, {4});
  EXPECT_EQ(difference(run({"Sum"}, {a, b, c}), floats({2, 3}, {8, 7, 6, 13, 12, 11})), "");
  EXPECT_EQ(difference(run({"Mean"}, {a, b, c}), floats({2, 3}, {8.0 / 3, 7.0 / 3, 2, 13.0 / 3, 4, 11.0 / 3}), 1e-6),
            "");
  EXPECT_EQ(difference(run({"Max"}, {a, b, c}), floats({2, 3}, {4, 4, 4, 6, 6, 6})), "");
  EXPECT_EQ(difference(run({"Mean"}, {b}), b), "");
}

TEST(Arithmetic, LargeTensorsOnSeveralThreadsAndInPlace) {
  const Tensor a = random_tensor({300, 1001}, 1), b = random_tensor({1001}, 2), c = random_tensor({300, 1}, 3);
  for (const Tensor* other : {&b, &c}) {
    const Tensor got = run({"Mul"}, {a, *other});
    for (int64_t i = 0; i < a.count(); ++i) {
      const float y = other == &b ? b.data<float>()[i % 1001] : c.data<float>()[i / 1001];
      ASSERT_EQ(got.data<float>()[i], a.data<float>()[i] * y) << i;
    }
  }
  Tensor mine = a.clone();
  const std::byte* memory = mine.raw();
  std::vector<Datum> inputs;
  inputs.emplace_back(std::move(mine));
  inputs.emplace_back(b);
  Graph graph;
  Value* x = graph.add_input("x", ValueType::of(DataType::kFloat));
  Value* y = graph.add_input("y", ValueType::of(DataType::kFloat));
  const Tensor got = evaluate(*graph.add_node("", "Add", {x, y}), 21, std::move(inputs))[0].tensor();
  EXPECT_EQ(got.raw(), memory);
  EXPECT_EQ(got.data<float>()[5000], a.data<float>()[5000] + b.data<float>()[5000 % 1001]);
}

TEST(Arithmetic, ErrorsNameTheInputs) {
  EXPECT_THAT(failure({"Add"}, {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}), ::testing::HasSubstr("(2) and (3)"));
  EXPECT_THAT(failure({"Add"}, {floats({}, {1}), ints({1})}),
              ::testing::HasSubstr("input 1: expected float, got int64"));
  EXPECT_THAT(failure({"Add"}, {bools({}, {1}), bools({}, {1})}), ::testing::HasSubstr("bool"));
  EXPECT_THAT(failure({"Max"}, {floats({}, {1}), ints({1})}), ::testing::HasSubstr("input 1"));
}

}  // namespace
}  // namespace attune::testing
