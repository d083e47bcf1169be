// What ai.attune::Attention says about arguments that don't fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::AttentionCase;
using testing::HasSubstr;

Tensor floats(const Shape& shape) {
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  std::fill_n(t.mutable_data<float>(), t.count(), 0.5F);
  return t;
}

// Two heads of width 4, three queries, five keys.
AttentionCase valid() {
  AttentionCase c;
  c.attributes["num_heads"] = int64_t{2};
  c[kAttentionQuery] = floats({1, 3, 8});
  c[kAttentionKey] = floats({1, 5, 8});
  c[kAttentionValue] = floats({1, 5, 6});
  return c;
}

void expect_error(const AttentionCase& c, const std::string& message) {
  try {
    c.run();
    FAIL() << "no error; expected: " << message;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
  }
}

TEST(AttentionErrors, AcceptsWhatIsRight) { EXPECT_NO_THROW(valid().run()); }

TEST(AttentionErrors, NamesAttributes) {
  const auto with = [](const std::string& name, Attribute value) {
    AttentionCase c = valid();
    c.attributes[name] = std::move(value);
    return c;
  };
  expect_error(with("score", std::string("cosine")),
               "attribute 'score': expected one of scaled_dot, dot, general, additive, got 'cosine'");
  expect_error(with("alignment", std::string("firm")), "attribute 'alignment': expected one of soft, hard, monotonic");
  expect_error(with("weights_output", std::string("x")), "attribute 'weights_output'");
  expect_error(with("empty_row", std::string("x")), "attribute 'empty_row': expected one of zero, mean");
  expect_error(with("scale", -1.0F), "attribute 'scale': expected a finite number, not negative, got -1");
  expect_error(with("scale", INFINITY), "attribute 'scale'");
  expect_error(with("softcap", -0.5F), "attribute 'softcap': expected a finite number, not negative, got -0.5");
  expect_error(with("window", std::vector<int64_t>{-2, 0}),
               "attribute 'window': expected two integers, each at least -1, got [-2, 0]");
  expect_error(with("window", std::vector<int64_t>{1}), "attribute 'window'");
  expect_error(with("chunk", int64_t{0}), "attribute 'chunk': expected at least 1, got 0");
  expect_error(with("causal", int64_t{2}), "attribute 'causal': expected 0 or 1, got 2");
  expect_error(with("num_heads", int64_t{0}), "attribute 'num_heads': expected at least 1, got 0");
  AttentionCase scaled = with("scale", 1.0F);
  scaled.attributes["score"] = std::string("dot");
  expect_error(scaled, "attribute 'scale': expected none beside score 'dot'");
}

TEST(AttentionErrors, NamesOperands) {
  const auto with = [](AttentionInput input, Tensor value) {
    AttentionCase c = valid();
    c[input] = std::move(value);
    return c;
  };
  expect_error(with(kAttentionQuery, floats({3, 8})), "query: expected rank 3 or 4, got shape (3,8)");
  expect_error(with(kAttentionQuery, floats({1, 3, 9})), "query: expected a last dimension that 2 heads divide, got 9");
  expect_error(with(kAttentionKey, floats({1, 5, 10})), "key: expected heads as wide as the query's (4), got 5");
  expect_error(with(kAttentionValue, floats({1, 4, 6})), "value: expected the key's length (5), got 4");
  expect_error(with(kAttentionKey, Tensor::allocate(DataType::kDouble, {1, 5, 8})), "key: expected float, got double");
  expect_error(with(kAttentionKey, floats({1, 3, 5, 4})), "num_kv_heads: expected a divisor of num_heads (2), got 3");
  expect_error(with(kAttentionQueryWeight, floats({7, 8})), "w_query: expected float (8, columns), got float (7,8)");
  expect_error(with(kAttentionKeyBias, floats({7})), "b_key: expected float (8), got float (7)");
  expect_error(with(kAttentionMask, floats({4, 5})),
               "mask: expected a shape that broadcasts to (B,H,Tq,Tk) = (1,2,3,5), got (4,5)");
  expect_error(with(kAttentionMask, Tensor::from<int64_t>({1}, {1})),
               "mask: expected bool or float, got int64 (an integer mask is ambiguous");
  expect_error(with(kAttentionMask, floats({1, 1, 1, 1, 5})), "mask: expected at most rank 4");
  expect_error(with(kAttentionKeyLengths, Tensor::from<int32_t>({1}, {1})), "key_lengths: expected int64, got int32");
  expect_error(with(kAttentionQueryPosition, Tensor::from<int64_t>({1, 1}, {1})),
               "query_position: expected shape (B) = (1)");
  expect_error(with(kAttentionScoreWeight, floats({2, 4})),
               "w_score: expected none beside score 'scaled_dot' or 'dot'");
  expect_error(with(kAttentionScoreBias, floats({3})), "b_score: expected shape (H) = (2), got (3)");
  expect_error(with(kAttentionPosition, Tensor::from<int64_t>({1, 2}, {0, -1})),
               "position: expected no negative number, got -1");
  expect_error(with(kAttentionDraw, Tensor::from<int64_t>({2}, {0, 1})), "draw: expected a scalar, got shape (2)");
  expect_error(with(kAttentionPastKey, floats({1, 2, 2, 4})),
               "past_key and past_value: expected both or neither, got one");
}

// A batch of 1 stands for all rows of the others'; others must agree.
TEST(AttentionErrors, NamesBatchesThatDoNotGoTogether) {
  AttentionCase two = valid();
  two[kAttentionQuery] = floats({2, 3, 8});
  EXPECT_NO_THROW(two.run());
  AttentionCase keys = two, values = two, lengths = two;
  keys[kAttentionKey] = floats({3, 5, 8});
  expect_error(keys, "key: expected batch 2, got 3");
  values[kAttentionValue] = floats({3, 5, 6});
  expect_error(values, "value: expected batch 2, got 3");
  lengths[kAttentionKeyLengths] = Tensor::from<int64_t>({3}, {1, 1, 1});
  expect_error(lengths, "key_lengths: expected shape (B) = (2), got (3)");
}

TEST(AttentionErrors, NamesWhatDoesNotGoTogether) {
  AttentionCase past = valid();
  past[kAttentionPastKey] = floats({1, 2, 2, 5});
  past[kAttentionPastValue] = floats({1, 2, 2, 3});
  expect_error(past, "past_key: expected shape (B,G,Tp,E) = (1,2,2,4), got (1,2,2,5)");
  AttentionCase split = valid();
  split[kAttentionKey] = floats({1, 2, 5, 4});
  split[kAttentionKeyWeight] = floats({4, 8});
  expect_error(split, "key: expected three dimensions beside a projection, got float (1,2,5,4)");
  AttentionCase additive = valid();
  additive.attributes["score"] = std::string("additive");
  expect_error(additive, "w_score: expected a tensor beside score 'additive' or 'general', got none");
  AttentionCase position = valid();
  position.wanted[kAttentionNextPosition] = true;
  expect_error(position, "output next_position: only alignment 'monotonic' gives it");
}

}  // namespace
}  // namespace attune
