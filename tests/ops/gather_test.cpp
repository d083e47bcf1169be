#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Gather, EveryAxisWidthAndIndexType) {
  for (const DataType type :
       {DataType::kInt8, DataType::kFloat16, DataType::kFloat, DataType::kInt64, DataType::kBool}) {
    const Tensor x = counting({3, 4, 5}, type);
    for (const int64_t axis : {0, 1, 2, -1}) {
      const auto a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      for (const DataType index_type : {DataType::kInt32, DataType::kInt64}) {
        const Tensor indices = make(index_type, {2, 2}, {0, 2, -1, -3});
        Shape shape = x.shape().first(a);
        shape.push_back(2);
        shape.push_back(2);
        for (size_t i = a + 1; i < 3; ++i) shape.push_back(x.dim(i));
        const Tensor want = tabulate(type, shape, [&](const Shape& i) {
          Shape source = i.first(a);
          const auto index = static_cast<int64_t>(at(indices, {i[a], i[a + 1]}));
          source.push_back(index < 0 ? index + x.dim(a) : index);
          for (size_t d = a + 2; d < i.rank(); ++d) source.push_back(i[d]);
          return at(x, source);
        });
        EXPECT_EQ(difference(run({"Gather", {{"axis", axis}}}, {x, indices}), want), "") << name(type) << axis;
      }
    }
  }
  EXPECT_EQ(difference(run({"Gather"}, {ints({7, 8}), Tensor::scalar<int64_t>(1)}), Tensor::scalar<int64_t>(8)), "");
  EXPECT_EQ(run({"Gather"}, {counting({3, 2}), ints({})}).shape(), (Shape{0, 2}));
  EXPECT_EQ(run({"Gather"}, {Tensor::from_strings({2}, {"a", "b"}), ints({1, 0})}).strings(),
            (std::vector<std::string>{"b", "a"}));
}

TEST(Gather, IndicesOutsideNameThemselves) {
  EXPECT_THAT(failure({"Gather"}, {counting({3}), ints({3})}),
              ::testing::HasSubstr("input 1: index 3 is outside [-3, 3)"));
  EXPECT_THAT(failure({"Gather"}, {counting({3}), ints({-4})}), ::testing::HasSubstr("index -4"));
  EXPECT_NE(failure({"Gather"}, {counting({0, 2}), ints({0})}), "");
  EXPECT_NE(failure({"Gather"}, {counting({3}), floats({1}, {0})}), "");
  EXPECT_NE(failure({"Gather", {{"axis", int64_t{1}}}}, {counting({3}), ints({0})}), "");
}

TEST(GatherElements, EveryAxis) {
  const Tensor x = counting({3, 4, 2});
  for (const int64_t axis : {0, 1, 2}) {
    const auto a = static_cast<size_t>(axis);
    const Tensor indices = tabulate(DataType::kInt64, {2, 3, 2}, [&](const Shape& i) {
      const int64_t n = x.dim(a);
      return static_cast<double>((i[0] + 2 * i[1] + i[2]) % n - (i[1] % 2 ? n : 0));
    });
    const Tensor want = tabulate(DataType::kFloat, {2, 3, 2}, [&](const Shape& i) {
      Shape source = i;
      const auto index = static_cast<int64_t>(at(indices, i));
      source[a] = index < 0 ? index + x.dim(a) : index;
      return at(x, source);
    });
    EXPECT_EQ(difference(run({"GatherElements", {{"axis", axis}}}, {x, indices}), want), "") << axis;
  }
  EXPECT_THAT(failure({"GatherElements"}, {counting({2}), ints({2})}), ::testing::HasSubstr("index 2"));
  EXPECT_NE(failure({"GatherElements"}, {counting({2, 2}), ints({0})}), "");
  EXPECT_NE(failure({"GatherElements"}, {counting({2, 1}), make(DataType::kInt64, {1, 3}, {0, 0, 0})}), "");
}

TEST(GatherNd, DepthsAndBatches) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(
      difference(run({"GatherND"}, {x, make(DataType::kInt64, {2, 3}, {0, 0, 1, 1, -1, -1})}), floats({2}, {1, 23})),
      "");
  EXPECT_EQ(
      difference(run({"GatherND"}, {x, make(DataType::kInt64, {1, 2}, {1, 0})}), floats({1, 4}, {12, 13, 14, 15})), "");
  const Call batched{"GatherND", {{"batch_dims", int64_t{1}}}};
  EXPECT_EQ(difference(run(batched, {x, make(DataType::kInt64, {2, 1}, {1, 2})}),
                       floats({2, 4}, {4, 5, 6, 7, 20, 21, 22, 23})),
            "");
  EXPECT_NE(failure({"GatherND"}, {x, make(DataType::kInt64, {1, 4}, {0, 0, 0, 0})}), "");
  EXPECT_THAT(failure({"GatherND"}, {x, make(DataType::kInt64, {1, 1}, {2})}), ::testing::HasSubstr("index 2"));
  EXPECT_NE(failure(batched, {x, make(DataType::kInt64, {3, 1}, {0, 0, 0})}), "");
}

}  // namespace
}  // namespace attune::testing
