#include "ops/infer/symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attune {
namespace {

using testing::ElementsAre;
using testing::Pair;

Model decoder() {
  Model model;
  const Dim batch = Dim::symbol("batch"), past = Dim::symbol("past");
  model.graph->add_input("ids", ValueType::of(DataType::kInt64, Dims{batch, 1}));
  model.graph->add_input("mask", ValueType::of(DataType::kInt64, Dims{batch, past + 1}));
  model.graph->add_input("states", ValueType::of(DataType::kFloat, Dims{batch, Dim::parse("frames / 2"), 64}));
  return model;
}

TEST(Symbols, OfInputsAreListed) { EXPECT_THAT(input_symbols(decoder()), ElementsAre("batch", "frames", "past")); }

TEST(Symbols, GiveShapes) {
  const Model model = decoder();
  const TensorType& mask = model.graph->inputs()[1]->tensor_type();
  EXPECT_EQ(shape_for(mask, {{"batch", 2}, {"past", 5}}), (Shape{2, 6}));
  EXPECT_EQ(shape_for(mask, {{"batch", 2}}), std::nullopt);
  EXPECT_EQ(shape_for(mask, {{"batch", 2}, {"past", -5}}), std::nullopt);
  EXPECT_EQ(shape_for({DataType::kFloat, std::nullopt}, {}), std::nullopt);
}

TEST(Symbols, AreSolvedFromShapes) {
  const Model model = decoder();
  const auto sizes =
      solve_symbols(*model.graph, {{"ids", {3, 1}}, {"mask", {3, 8}}, {"states", {3, 7, 64}}, {"unknown", {1}}});
  EXPECT_THAT(sizes, ElementsAre(Pair("batch", 3), Pair("frames", 14), Pair("past", 7)));
}

TEST(Symbols, ContradictionsNameTheInput) {
  const Model model = decoder();
  const auto message = [&](const std::map<std::string, Shape, std::less<>>& shapes) {
    try {
      solve_symbols(*model.graph, shapes);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), Error::Kind::kInvalidArgument);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message({{"ids", {3, 1}}, {"mask", {4, 8}}}), testing::HasSubstr("'mask'"));
  EXPECT_THAT(message({{"ids", {3, 2}}}), testing::HasSubstr("'ids'"));
  EXPECT_THAT(message({{"ids", {3}}}), testing::HasSubstr("'ids'"));
  EXPECT_THAT(message({{"ids", {3, 1}}, {"mask", {3, 0}}}), testing::HasSubstr("'mask'"));
}

}  // namespace
}  // namespace attune
