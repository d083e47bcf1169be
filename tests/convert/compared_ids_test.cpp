// Ids that a graph compares with that of padding are made up with and without it.
#include <gtest/gtest.h>

#include "convert/verify.h"
#include "graph/io/text.h"

namespace attune {
namespace {

// The mean of what isn't padding, by ids that nothing else uses.
Model mean(const std::string& condition) {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[B,S] ids, float[B,S] x) => (float[B,1] y)
    <int64 one = {1}, int64 two = {2}, float nil = {0}, int64[1] axis = {1}>
    {)" + condition + R"(
      kept = Where (c, x, nil)
      y = ReduceSum <keepdims = 1> (kept, axis)
    })");
}

TEST(ComparedIds, PaddingThatIsTakenForZeroIsFound) {
  const Model source = mean("p = Equal (ids, one) c = Not (p)");
  EXPECT_TRUE(verify(source, mean("p = Equal (ids, one) c = Not (p)"), {}).passed());
  EXPECT_FALSE(verify(source, mean("c = Cast <to = 9> (ids)"), {}).passed());
  EXPECT_FALSE(verify(source, mean("c = Equal (ids, two)"), {}).passed());
}

TEST(ComparedIds, AMaskOfOnesIsToldFromOtherNumbers) {
  const Model source = mean("c = Equal (ids, one)");
  EXPECT_FALSE(verify(source, mean("c = Cast <to = 9> (ids)"), {}).passed());
}

TEST(ComparedIds, IdsThatLookRowsUpHavePadding) {
  const auto embedded = [](const std::string& pad) {
    return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (int64[B,S] ids) => (float[B,S] y) <float nil = {0}, int64 pad = {)" +
                       pad + R"(}, int64[1] rows = {5000}>
      {
        table = ConstantOfShape <value = float[1] {1}> (rows)
        e = Gather (table, ids)
        p = Equal (ids, pad)
        y = Where (p, nil, e)
      })");
  };
  EXPECT_TRUE(verify(embedded("17"), embedded("17"), {}).passed());
  EXPECT_FALSE(verify(embedded("17"), embedded("4711"), {}).passed());
}

}  // namespace
}  // namespace attune
