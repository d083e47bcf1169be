// Sizes that operators need of each other.
#include "convert/sample_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/error.h"
#include "graph/io/text.h"

namespace attune {
namespace {

Dim s(const char* text) { return Dim::parse(text); }

// What `size` is by the relations.
std::string solved(const std::vector<SizeRelation>& relations, const char* size) {
  return s(size).substitute(solve_sizes(relations, {"a", "b", "c", "d"})).to_string();
}

TEST(SampleSizes, OfTwoEqualSizesTheFirstStays) { EXPECT_EQ(solved({{s("a"), s("b")}}, "b"), "a"); }
TEST(SampleSizes, Numbers) { EXPECT_EQ(solved({{s("3*a"), 12}}, "a"), "4"); }
TEST(SampleSizes, Multiples) { EXPECT_EQ(solved({{s("a"), s("4*w")}}, "a"), "4*w"); }
TEST(SampleSizes, CommonFactorsCancel) { EXPECT_EQ(solved({{s("a*b*c"), s("a*b*12")}}, "c"), "12"); }
TEST(SampleSizes, SumsAreOfParts) { EXPECT_EQ(solved({{s("a"), s("b + c")}}, "a"), "b + c"); }
TEST(SampleSizes, Quotients) { EXPECT_EQ(solved({{s("a"), s("4*w")}, {s("b"), s("floor(a/4)")}}, "a"), "4*b"); }
TEST(SampleSizes, LaterRelationsSolveEarlierOnes) {
  EXPECT_EQ(solved({{s("a*b"), s("6*c")}, {s("a"), 2}, {s("c"), s("b*d")}, {s("d"), 1}}, "c"), "b");
}
TEST(SampleSizes, ContradictionsAreLeft) { EXPECT_EQ(solved({{s("a"), 2}, {s("a"), 3}}, "a"), "2"); }

TEST(SampleSizes, ProportionsAreMultiplesOfBoth) {
  const SizeBindings b = solve_sizes({{s("4*a"), s("6*b")}}, {"a", "b"});
  const Dim a = s("a").substitute(b), c = s("b").substitute(b);
  EXPECT_EQ((a * Dim(4)).to_string(), (c * Dim(6)).to_string());
  const std::string unit = *a.symbols().begin();
  EXPECT_EQ(a.evaluate({{unit, 5}}), 15);
}

const char* kBroadcast = R"(<ir_version: 8, opset_import: ["" : 17]>
  g (float[N,4] x, float[M,4] y) => (float[K,4] z) { z = Add (x, y) })";

TEST(SampleSizes, SizesThatBroadcastAreTheSameOnlyInTheSecondForm) {
  const auto forms = sample_forms(parse_model(kBroadcast), {});
  ASSERT_EQ(forms.size(), 2U);
  EXPECT_THAT(forms[0].symbols, testing::ElementsAre("N", "M"));
  EXPECT_THAT(forms[1].symbols, testing::ElementsAre("N"));
}

TEST(SampleSizes, GivenSizesAreTaken) {
  for (const SampleForm& form : sample_forms(parse_model(kBroadcast), {{"N", 1}, {"M", 3}})) {
    EXPECT_TRUE(form.symbols.empty());
    EXPECT_TRUE(form.inputs[0].dims[0].is(1));
    EXPECT_TRUE(form.inputs[1].dims[0].is(3));
  }
}

TEST(SampleSizes, NamesOfNoSizeAreRefused) {
  try {
    sample_forms(parse_model(kBroadcast), {{"batch", 1}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kInvalidArgument);
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("batch"), testing::HasSubstr("N, M")));
  }
}

TEST(SampleSizes, UndeclaredSizesAreNamedByInputAndAxis) {
  Model model = parse_model(kBroadcast);
  ValueType type = model.graph->inputs()[0]->type();
  (*type.tensor.shape)[0] = Dim();
  model.graph->inputs()[0]->set_type(type);
  EXPECT_EQ(sample_forms(model, {}).front().sizes.front().first, "x#0");
}

}  // namespace
}  // namespace attune
