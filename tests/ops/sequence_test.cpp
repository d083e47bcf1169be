#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

// Evaluates a node on data of any kind.
std::vector<Datum> apply(const Call& call, std::vector<Datum> inputs) {
  Graph graph;
  std::vector<Value*> values;
  for (const Datum& datum : inputs) values.push_back(datum.defined() ? graph.add_input("", ValueType()) : nullptr);
  return evaluate(*graph.add_node("", call.type, values, call.outputs, call.attributes), call.opset, std::move(inputs));
}

std::vector<double> firsts(const Datum& sequence) {
  std::vector<double> values;
  for (const Datum& element : sequence.elements()) values.push_back(element.tensor().to_double()[0]);
  return values;
}

Datum sequence(const std::vector<double>& values) {
  std::vector<Datum> elements;
  for (const double value : values) elements.emplace_back(floats({1}, {value}));
  return Datum::sequence(std::move(elements));
}

Datum position(int64_t i) { return Tensor::scalar(i); }

TEST(Sequence, BuildReadAndChange) {
  EXPECT_TRUE(apply({"SequenceEmpty"}, {})[0].elements().empty());
  const Datum built = apply({"SequenceConstruct"}, {floats({1}, {1}), floats({1}, {2}), floats({1}, {3})})[0];
  EXPECT_EQ(firsts(built), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(apply({"SequenceAt"}, {built, position(-1)})[0].tensor().to_double()[0], 3);
  EXPECT_EQ(apply({"SequenceLength"}, {built})[0].tensor().to_int64()[0], 3);
  const Datum nine = floats({1}, {9});
  EXPECT_EQ(firsts(apply({"SequenceInsert"}, {built, nine})[0]), (std::vector<double>{1, 2, 3, 9}));
  EXPECT_EQ(firsts(apply({"SequenceInsert"}, {built, nine, position(0)})[0]), (std::vector<double>{9, 1, 2, 3}));
  EXPECT_EQ(firsts(apply({"SequenceInsert"}, {built, nine, position(-1)})[0]), (std::vector<double>{1, 2, 9, 3}));
  EXPECT_EQ(firsts(apply({"SequenceInsert"}, {built, nine, position(3)})[0]), (std::vector<double>{1, 2, 3, 9}));
  EXPECT_EQ(firsts(apply({"SequenceErase"}, {built})[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(firsts(apply({"SequenceErase"}, {built, position(0)})[0]), (std::vector<double>{2, 3}));
  EXPECT_EQ(firsts(built), (std::vector<double>{1, 2, 3})) << "the input stays as it was";
}

TEST(Sequence, PositionsOutsideAreErrors) {
  const Datum three = sequence({1, 2, 3});
  EXPECT_THROW(apply({"SequenceAt"}, {three, position(3)}), Error);
  EXPECT_THROW(apply({"SequenceErase"}, {three, position(-4)}), Error);
  EXPECT_THROW(apply({"SequenceInsert"}, {three, floats({}, {1}), position(-4)}), Error);
  EXPECT_THROW(apply({"SequenceErase"}, {sequence({})}), Error);
  EXPECT_THROW(apply({"SequenceLength"}, {floats({}, {1})}), Error);
  EXPECT_THROW(apply({"SequenceConstruct"}, {floats({}, {1}), ints({1})}), Error);
}

TEST(Sequence, SplitAndConcat) {
  const Tensor x = counting({5, 2});
  const auto split = [&](Attributes attributes, Datum sizes) {
    return apply({"SplitToSequence", std::move(attributes)}, {x, std::move(sizes)})[0];
  };
  const auto shapes = [](const Datum& parts) {
    std::vector<Shape> all;
    for (const Datum& part : parts.elements()) all.push_back(part.tensor().shape());
    return all;
  };
  EXPECT_EQ(shapes(split({}, Tensor::scalar<int64_t>(2))), (std::vector<Shape>{{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(shapes(split({}, ints({1, 4}))), (std::vector<Shape>{{1, 2}, {4, 2}}));
  EXPECT_EQ(shapes(split({{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {})), (std::vector<Shape>{{5}, {5}}));
  EXPECT_THROW(split({}, ints({1, 3})), Error);
  EXPECT_THROW(split({}, Tensor::scalar<int64_t>(0)), Error);
  const Datum parts = split({}, ints({1, 4}));
  EXPECT_EQ(difference(apply({"ConcatFromSequence", {{"axis", int64_t{0}}}}, {parts})[0].tensor(), x), "");
  const Datum columns = split({{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {});
  const Tensor stacked =
      apply({"ConcatFromSequence", {{"axis", int64_t{-1}}, {"new_axis", int64_t{1}}}}, {columns})[0].tensor();
  EXPECT_EQ(difference(stacked, x), "");
  EXPECT_THROW(apply({"ConcatFromSequence", {{"axis", int64_t{0}}}}, {sequence({})}), Error);
}

TEST(Optional, HasAndGet) {
  const Datum full = apply({"Optional"}, {floats({}, {4})})[0], empty = apply({"Optional"}, {})[0];
  EXPECT_EQ(full.kind(), Datum::Kind::kOptional);
  EXPECT_TRUE(apply({"OptionalHasElement"}, {full})[0].tensor().data<bool>()[0]);
  EXPECT_FALSE(apply({"OptionalHasElement"}, {empty})[0].tensor().data<bool>()[0]);
  EXPECT_FALSE(apply({"OptionalHasElement"}, {})[0].tensor().data<bool>()[0]);
  EXPECT_TRUE(apply({"OptionalHasElement"}, {floats({}, {1})})[0].tensor().data<bool>()[0]);
  EXPECT_EQ(apply({"OptionalGetElement"}, {full})[0].tensor().to_double()[0], 4);
  EXPECT_EQ(apply({"OptionalGetElement"}, {floats({}, {5})})[0].tensor().to_double()[0], 5);
  EXPECT_THROW(apply({"OptionalGetElement"}, {empty}), Error);
}

}  // namespace
}  // namespace attune::testing
