#include "graph/dim.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace attune {
namespace {

using Bindings = std::map<std::string, int64_t, std::less<>>;

TEST(Dim, CanonicalFormMakesEqualSumsEqual) {
  const Dim past = Dim::symbol("past"), batch = Dim::symbol("batch");
  EXPECT_EQ(past + 1 + batch, batch + past + Dim(1));
  EXPECT_EQ((past + 1) * batch, batch * past + batch);
  EXPECT_EQ(past - past, Dim(0));
  EXPECT_FALSE(past == batch);
  EXPECT_FALSE(Dim() == Dim());
}

TEST(Dim, ParsesWhatItPrints) {
  for (const char* text : {"past + 1", "2*batch*heads", "floor((n + 1)/(2))", "min(a,b)", "-a + b - 3", "max(0,a - 1)",
                           "mod(n,3)", "?12", "?12 + 1", "some odd name!", "'7' + 1"}) {
    const Dim d = Dim::parse(text);
    ASSERT_TRUE(d.known()) << text;
    EXPECT_EQ(Dim::parse(d.to_string()), d) << text;
  }
  const Dim odd = Dim::parse("some odd name!");
  EXPECT_EQ(odd.as_symbol(), "some odd name!");
  EXPECT_EQ(Dim::parse((odd + 1).to_string()), odd + 1);
}

// A dim_param is a name, whatever it looks like: torch.onnx.export(dynamic_axes={'x': {1: '1'}}) writes such.
TEST(Dim, NamesThatLookLikeNumbers) {
  for (const char* text : {"0", "1", "-1", "007", "2*3", "b - b + 3", "0*n", "max(2,3)"}) {
    const Dim d = Dim::parse(text);
    EXPECT_EQ(d.as_symbol(), text);
    EXPECT_EQ(d.source_text(), text);
    EXPECT_EQ(d.evaluate({{text, 7}}), 7);
    EXPECT_EQ(Dim::parse(d.to_string()), d) << d.to_string();
    EXPECT_EQ(Dim::parse((d + 1).to_string()), d + 1) << (d + 1).to_string();
  }
  EXPECT_FALSE(Dim::parse("1") == Dim(1));
  EXPECT_NE(Dim::symbol("1").to_string(), Dim(1).to_string());
}

TEST(Dim, ReadsWhatExportersWrite) {
  const Dim s = Dim::symbol("s"), n = Dim::symbol("n");
  EXPECT_EQ(Dim::parse("past_decoder_sequence_length + 1"), Dim::symbol("past_decoder_sequence_length") + 1);
  EXPECT_EQ(Dim::parse("encoder_sequence_length / 2"), Dim::floor_divide(Dim::symbol("encoder_sequence_length"), 2));
  EXPECT_EQ(Dim::parse("((s + 1)//2)"), Dim::floor_divide(s + 1, 2));
  EXPECT_EQ(Dim::parse("((s + (PythonMod(-s, 5)))//5)"), Dim::floor_divide(s + Dim::modulo(Dim(0) - s, 5), 5));
  EXPECT_EQ(Dim::parse("Max(1, n)"), Dim::maximum(1, n));
  EXPECT_EQ(Dim::parse("s**2"), s * s);
  EXPECT_EQ(Dim::parse("12*n*s").evaluate({{"n", 2}, {"s", 3}}), 72);
  EXPECT_FALSE(Dim::parse("").known());
  EXPECT_FALSE(Dim::parse("?").known());
}

TEST(Dim, PaddedToWholeBlocks) {
  const Dim n = Dim::symbol("n"), blocks = Dim::ceil_divide(n, 5);
  EXPECT_EQ(Dim::floor_divide(n + Dim::modulo(Dim(0) - n, 5), 5), blocks);
  EXPECT_EQ(Dim::minimum(blocks * 5, n), n);
  EXPECT_EQ(Dim::minimum(Dim::floor_divide(n, 5) * 5, n), Dim::floor_divide(n, 5) * 5);
  EXPECT_FALSE((Dim::floor_divide(n + 3, 5) * 5 - n).at_least(0));
}

TEST(Dim, NestingBeyondReasonIsOneSymbol) {
  const std::string deep = std::string(100000, '(') + "a" + std::string(100000, ')');
  EXPECT_EQ(Dim::parse(deep).as_symbol(), deep);
}

TEST(Dim, DividesExactlyWhereTermsDivide) {
  const Dim b = Dim::symbol("b"), n = Dim::symbol("n"), past = Dim::symbol("past");
  EXPECT_EQ(Dim::floor_divide(b * 8, 8), b);
  EXPECT_EQ(Dim::floor_divide(b * 512, b * 8), Dim(64));
  EXPECT_EQ(Dim::floor_divide((past + n) * b * 512, (past + n) * 8), b * 64);
  EXPECT_EQ(Dim::floor_divide((n * 2 + past) * b, b * 8), Dim::floor_divide(n * 2 + past, 8));
  EXPECT_EQ(Dim::floor_divide(n * b * b, past * b), Dim::floor_divide(n * b, past));
  EXPECT_EQ(Dim::floor_divide((past + 1) * b, past + 1), b);
  EXPECT_EQ(Dim::floor_divide(b + 1, 2).evaluate({{"b", 4}}), 2);
  EXPECT_EQ(Dim::modulo(b * 8, 8), Dim(0));
  EXPECT_EQ(Dim::modulo(b * 8 + 3, 8), Dim(3));
  EXPECT_FALSE(Dim::floor_divide(b, 0).known());
}

TEST(Dim, DifferentWaysToWriteAQuotientAreEqual) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(Dim::floor_divide(n - 1, 2) + 1, Dim::floor_divide(n + 1, 2));
  EXPECT_EQ(Dim::ceil_divide(n, 2), Dim::floor_divide(n + 1, 2));
  EXPECT_EQ(Dim::floor_divide(n * 2 + 3, 4), Dim::floor_divide(n + 1, 2));
  EXPECT_EQ(Dim::floor_divide(Dim::floor_divide(n, 2) + 1, 2), Dim::floor_divide(n + 2, 4));
  EXPECT_EQ(Dim::floor_divide(n, -2), Dim(0) - Dim::floor_divide(n + 1, 2));
}

TEST(Dim, BoundsFollowFromSizesNotBeingNegative) {
  const Dim p = Dim::symbol("p"), n = Dim::symbol("n");
  EXPECT_TRUE((p + 1).at_least(1));
  EXPECT_FALSE((p - 1).at_least(0));
  EXPECT_EQ(Dim::maximum(p + 1, p), p + 1);
  EXPECT_TRUE(Dim::maximum(p - 1, 0).at_least(0));
  EXPECT_TRUE(Dim::floor_divide(p + 1, 2).at_least(0));
  EXPECT_TRUE((n - Dim::minimum(n, 512)).at_least(0));
  EXPECT_TRUE((Dim::minimum(512, p + n) - Dim::minimum(512, p)).at_least(0));
  EXPECT_TRUE((Dim(7) - Dim::modulo(n, 8)).at_least(0));
  EXPECT_FALSE((Dim(6) - Dim::modulo(n, 8)).at_least(0));
}

TEST(Dim, ClipsNamesASizeCutToALimit) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  EXPECT_TRUE(Dim::minimum(n, 512).clips(n));
  EXPECT_FALSE(Dim::minimum(n, 512).clips(m));
  EXPECT_FALSE(Dim::minimum(n, m).clips(n));
  EXPECT_FALSE(Dim::minimum(n, 1).clips(n));  // is broadcast
  EXPECT_FALSE(n.clips(n));
}

TEST(Dim, OverflowIsUnknown) {
  const Dim n = Dim::symbol("n"), most(INT64_MAX), least(INT64_MIN);
  EXPECT_FALSE((most + 1).known());
  EXPECT_FALSE((n * most * Dim(2)).known());
  EXPECT_FALSE((Dim(0) - least).known());
  EXPECT_FALSE(Dim::floor_divide(least, -1).known());
  EXPECT_EQ(Dim::modulo(least, -1), Dim(0));
  Dim product(1);
  for (int i = 0; i < 40; ++i) product = product * (Dim::symbol(fmt::format("x{}", i)) + 1);
  EXPECT_FALSE(product.known());
}

TEST(Dim, RemainderOfNumbersIsANumber) {
  const Dim dim = Dim::modulo(Dim::symbol("n") * Dim(3) - Dim(2), -3);
  EXPECT_TRUE(dim.is(-2)) << dim.to_string();
}

// Random expressions: the canonical form has the value of the operations, bounds hold, text round-trips.
struct Pair {
  Dim dim;
  int64_t value;
};

Pair random_expression(std::mt19937& random, const Bindings& bindings, int depth) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  if (depth == 0) {
    if (pick(0, 2) == 0) {
      const int64_t c = pick(-4, 9);
      return {c, c};
    }
    auto it = bindings.begin();
    std::advance(it, pick(0, static_cast<int64_t>(bindings.size()) - 1));
    return {Dim::symbol(it->first), it->second};
  }
  const Pair a = random_expression(random, bindings, depth - 1), b = random_expression(random, bindings, depth - 1);
  const auto floor_div = [](int64_t x, int64_t y) { return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0); };
  switch (pick(0, 6)) {
    case 0:
      return {a.dim + b.dim, a.value + b.value};
    case 1:
      return {a.dim - b.dim, a.value - b.value};
    case 2:
      return {a.dim * b.dim, a.value * b.value};
    case 3:
      return {Dim::minimum(a.dim, b.dim), std::min(a.value, b.value)};
    case 4:
      return {Dim::maximum(a.dim, b.dim), std::max(a.value, b.value)};
    case 5:
      return b.value == 0 ? a : Pair{Dim::floor_divide(a.dim, b.dim), floor_div(a.value, b.value)};
    default:
      return b.value == 0 ? a : Pair{Dim::modulo(a.dim, b.dim), a.value - floor_div(a.value, b.value) * b.value};
  }
}

TEST(Dim, RandomExpressionsKeepTheirValue) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    Bindings bindings;
    for (const char* name : {"a", "b", "c"}) bindings[name] = std::uniform_int_distribution<int64_t>(0, 6)(random);
    const auto [dim, value] = random_expression(random, bindings, 1 + round % 4);
    if (!dim.known()) continue;
    const auto evaluated = dim.evaluate(bindings);
    // A division by zero in a factor that cancels has no value; else both agree.
    if (!evaluated) continue;
    ASSERT_EQ(*evaluated, value) << dim.to_string();
    for (const int64_t bound : {value + 1, value + 2})
      ASSERT_FALSE(dim.at_least(bound)) << dim.to_string() << " " << bound;
    if (!dim.constant()) {
      ASSERT_EQ(Dim::parse(dim.to_string()), dim) << dim.to_string();
    }
    std::map<std::string, Dim, std::less<>> constants(bindings.begin(), bindings.end());
    ASSERT_TRUE(dim.substitute(constants).is(value)) << dim.to_string();
  }
}

// The smallest integer by -1 doesn't fit, and a processor traps on it.
TEST(Dim, TheSmallestIntegerByMinusOne) {
  const Dim x = Dim::symbol("x"), smallest(INT64_MIN);
  const Dim quotient = Dim::parse("x*(0-2**16)*2**16*2**16*2**15/(0-x)");
  EXPECT_FALSE(quotient.constant()) << quotient.to_string();
  EXPECT_EQ(quotient.evaluate({{"x", 1}}), std::nullopt);
  EXPECT_EQ(Dim::modulo(x * smallest, x * -1).evaluate({{"x", 1}}), 0);
  EXPECT_FALSE(Dim::floor_divide(smallest, -1).known());
  EXPECT_EQ(Dim::modulo(smallest, -1), Dim(0));
}

TEST(Dim, RemaindersNextToTheSmallestInteger) {
  EXPECT_EQ(Dim::modulo(INT64_MIN, 3), Dim(1));  // -9223372036854775808 = 3 * -3074457345618258603 + 1
  EXPECT_EQ(Dim::modulo(5, INT64_MIN), Dim(INT64_MIN + 5));
  EXPECT_EQ(Dim::floor_divide(INT64_MIN, 3), Dim(-3074457345618258603));
}

}  // namespace
}  // namespace attune
