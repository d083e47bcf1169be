#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

struct Reduction {
  std::string type;
  std::function<double(const std::vector<double>&)> f;
};

double sum(const std::vector<double>& x, const std::function<double(double)>& f) {
  double total = 0;
  for (const double v : x) total += f(v);
  return total;
}

const std::vector<Reduction>& reductions() {
  using Values = std::vector<double>;
  const auto same = [](double v) { return v; };
  const auto square = [](double v) { return v * v; };
  static const std::vector<Reduction> all = {
      {"ReduceSum", [=](const Values& x) { return sum(x, same); }},
      {"ReduceMean", [=](const Values& x) { return sum(x, same) / static_cast<double>(x.size()); }},
      {"ReduceMax", [](const Values& x) { return *std::max_element(x.begin(), x.end()); }},
      {"ReduceMin", [](const Values& x) { return *std::min_element(x.begin(), x.end()); }},
      {"ReduceProd",
       [](const Values& x) {
         double product = 1;
         for (const double v : x) product *= v;
         return product;
       }},
      {"ReduceL1", [](const Values& x) { return sum(x, [](double v) { return std::abs(v); }); }},
      {"ReduceL2", [=](const Values& x) { return std::sqrt(sum(x, square)); }},
      {"ReduceSumSquare", [=](const Values& x) { return sum(x, square); }},
      {"ReduceLogSum", [=](const Values& x) { return std::log(sum(x, same)); }},
      {"ReduceLogSumExp", [](const Values& x) { return std::log(sum(x, [](double v) { return std::exp(v); })); }},
  };
  return all;
}

// The reference: gathers the elements of each output.
Tensor expected(const Reduction& reduction, const Tensor& x, const Ints& axes, bool keep) {
  std::vector<bool> reduced(x.rank(), axes.empty());
  for (const int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x.rank()) : axis)] = true;
  Shape kept = x.shape(), shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (reduced[i]) kept[i] = 1;
    if (!reduced[i] || keep) shape.push_back(kept[i]);
  }
  std::vector<std::vector<double>> groups(static_cast<size_t>(kept.count()));
  tabulate(DataType::kDouble, x.shape(), [&](const Shape& i) {
    int64_t group = 0;
    for (size_t d = 0; d < x.rank(); ++d) group = group * kept[d] + (reduced[d] ? 0 : i[d]);
    groups[static_cast<size_t>(group)].push_back(at(x, i));
    return 0.0;
  });
  std::vector<double> values;
  for (const auto& group : groups) values.push_back(reduction.f(group));
  return make(x.type(), shape, values);
}

TEST(Reduce, EveryReductionAxesAndFloatType) {
  for (const Reduction& reduction : reductions())
    for (const DataType type : kFloatTypes)
      for (const Ints& axes : {Ints{0}, Ints{1}, Ints{-1}, Ints{0, 2}, Ints{1, 2}, Ints{0, 1, 2}, Ints{}})
        for (const bool keep : {true, false}) {
          const Tensor x = tabulate(type, {3, 2, 5}, [](const Shape& i) {
            return 0.5 + static_cast<double>((i[0] + 2 * i[1] + 3 * i[2]) % 7) / 4;
          });
          const Call call{reduction.type, {{"keepdims", int64_t{keep}}}, 18};
          const Tensor want = expected(reduction, x, axes, keep);
          EXPECT_EQ(difference(run(call, {x, ints(axes)}), want, 4 * epsilon(type)), "")
              << reduction.type << " " << name(type);
          Attributes attributes = {{"keepdims", int64_t{keep}}};
          if (!axes.empty()) attributes.insert({"axes", axes});
          EXPECT_EQ(difference(run({reduction.type, attributes, 12}, {x}), want, 4 * epsilon(type)), "")
              << reduction.type << " as attribute";
        }
}

TEST(Reduce, IntegersAndBool) {
  for (const DataType type : {DataType::kInt32, DataType::kInt64, DataType::kUInt32, DataType::kUInt64}) {
    const Tensor x = make(type, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(difference(run({"ReduceSum"}, {x, ints({1})}), make(type, {2, 1}, {6, 15})), "") << name(type);
    EXPECT_EQ(difference(run({"ReduceMean"}, {x, ints({0})}), make(type, {1, 3}, {2, 3, 4})), "") << name(type);
    EXPECT_EQ(difference(run({"ReduceProd"}, {x, ints({1})}), make(type, {2, 1}, {6, 120})), "") << name(type);
  }
  for (const DataType type : kIntegerTypes)
    EXPECT_EQ(difference(run({"ReduceMax"}, {make(type, {40}, std::vector<double>(40, 7))}), make(type, {1}, {7})), "");
  EXPECT_EQ(difference(run({"ReduceMax"}, {bools({2, 2}, {0, 0, 0, 1}), ints({1})}), bools({2, 1}, {0, 1})), "");
  EXPECT_EQ(difference(run({"ReduceMin"}, {bools({2, 2}, {1, 1, 0, 1}), ints({1})}), bools({2, 1}, {1, 0})), "");
}

TEST(Reduce, EmptyAxesAndEmptySets) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = counting({2, 3});
  const Call noop{"ReduceSum", {{"noop_with_empty_axes", int64_t{1}}}};
  EXPECT_EQ(difference(run(noop, {x}), x), "");
  EXPECT_EQ(difference(run(noop, {x, ints({})}), x), "");
  EXPECT_EQ(difference(run({"ReduceSumSquare", {{"noop_with_empty_axes", int64_t{1}}}}, {floats({2}, {3, 4})}),
                       floats({2}, {9, 16})),
            "");
  const Tensor none = floats({2, 0}, {});
  EXPECT_EQ(difference(run({"ReduceSum"}, {none, ints({1})}), floats({2, 1}, {0, 0})), "");
  EXPECT_EQ(difference(run({"ReduceProd"}, {none, ints({1})}), floats({2, 1}, {1, 1})), "");
  EXPECT_EQ(difference(run({"ReduceMax"}, {none, ints({1})}), floats({2, 1}, {-inf, -inf})), "");
  EXPECT_EQ(difference(run({"ReduceLogSumExp"}, {none, ints({1})}), floats({2, 1}, {-inf, -inf})), "");
  EXPECT_EQ(run({"ReduceSum"}, {none, ints({0})}).shape(), (Shape{1, 0}));
  EXPECT_EQ(difference(run({"ReduceSum"}, {floats({}, {5})}), floats({}, {5})), "");
}

TEST(Reduce, NanOverflowAndLongRows) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const size_t position : {0u, 17u, 63u, 99u}) {
    std::vector<double> values(100, 1);
    values[5] = inf;
    EXPECT_EQ(run({"ReduceMax"}, {floats({100}, values)}).to_double()[0], inf);
    values[position] = nan;
    EXPECT_TRUE(std::isnan(run({"ReduceMax"}, {floats({100}, values)}).to_double()[0])) << position;
    EXPECT_TRUE(std::isnan(run({"ReduceMin"}, {floats({100}, values)}).to_double()[0])) << position;
  }
  EXPECT_EQ(difference(run({"ReduceLogSumExp"}, {floats({2}, {1000, 1000})}), floats({1}, {1000 + std::log(2)}), 1e-6),
            "");
  EXPECT_EQ(difference(run({"ReduceLogSumExp"}, {floats({2}, {-inf, -inf})}), floats({1}, {-inf})), "");
  const Tensor x = random_tensor({70, 1000}, 3);
  double want = 0;
  for (const double v : x.to_double()) want += v;
  EXPECT_NEAR(run({"ReduceSum"}, {x}).to_double()[0], want, 1e-3);
  const Tensor rows = run({"ReduceMean"}, {x, ints({1})});
  EXPECT_EQ(difference(rows, expected(reductions()[1], x, {1}, true), 1e-6), "");
  EXPECT_THAT(failure({"ReduceSum"}, {x, ints({2})}), ::testing::HasSubstr("axis 2"));
}

}  // namespace
}  // namespace attune::testing
