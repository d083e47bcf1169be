#include "graph/dim.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

TEST(Dim, CanonicalFormMakesEqualSumsEqual) {
  const Dim past = Dim::symbol("past"), batch = Dim::symbol("batch");
  EXPECT_EQ(past + 1 + batch, batch + past + Dim(1));
  EXPECT_EQ((past + 1) * batch, batch * past + batch);
  EXPECT_EQ(past - past, Dim(0));
  EXPECT_FALSE(past == batch);
  EXPECT_FALSE(Dim() == Dim());
}

TEST(Dim, ParsesWhatItPrints) {
  for (const char* text : {"past + 1", "2*batch*heads", "floor((n + 1)/(2))", "min(a,b)", "-a + b - 3", "0", "7"}) {
    const Dim d = Dim::parse(text);
    ASSERT_TRUE(d.known()) << text;
    EXPECT_EQ(Dim::parse(d.to_string()), d) << text;
  }
  EXPECT_EQ(Dim::parse("past_decoder_sequence_length + 1"), Dim::symbol("past_decoder_sequence_length") + 1);
  EXPECT_TRUE(Dim::parse("some odd name!").known());
}

TEST(Dim, DividesExactlyWhereTermsDivide) {
  const Dim b = Dim::symbol("b");
  EXPECT_EQ(Dim::floor_divide(b * 8, 8), b);
  EXPECT_EQ(Dim::floor_divide(b * 512, b * 8), Dim(64));
  EXPECT_EQ(Dim::floor_divide(b + 1, 2).evaluate({{"b", 4}}), 2);
  EXPECT_EQ(Dim::modulo(b * 8, 8), Dim(0));
  EXPECT_FALSE(Dim::floor_divide(b, 0).known());
}

TEST(Dim, BoundsFollowFromSizesNotBeingNegative) {
  EXPECT_TRUE((Dim::symbol("past") + 1).at_least(1));
  EXPECT_FALSE((Dim::symbol("past") - 1).at_least(0));
  EXPECT_EQ(Dim::maximum(Dim::symbol("p") + 1, Dim::symbol("p")), Dim::symbol("p") + 1);
}

}  // namespace
}  // namespace attune
