// Attention whose operands may be rounded to integers, against its formulas in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/op.h"
#include "ops/support/attention_blocked.h"
#include "ops/support/attention_run.h"
#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::AttentionCase;
using test::CaseGenerator;

class RoundingContext : public SimpleContext {
 public:
  explicit RoundingContext(const Node& node) : SimpleContext(node, 1) {
    options_.activations = KernelOptions::Activations::kInt8;
  }
  const KernelOptions& options() const override { return options_; }

 private:
  KernelOptions options_;
};

// The context in a model whose activations may be rounded.
std::vector<double> rounded(const AttentionCase& c) {
  Graph graph;
  const Node* node = c.add_to(graph);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(RoundingContext(*node));
  std::vector<Datum> inputs(c.inputs.begin(), c.inputs.end());
  inputs.resize(node->inputs().size());
  SimpleCall call(std::move(inputs), node->output_count(), nullptr);
  for (size_t i = 0; i < node->output_count(); ++i) call.set_wanted(i, node->output(i) != nullptr);
  kernel->run(call);
  return call.outputs()[kAttentionContext].tensor().to_double();
}

// The context by products of `numbers`.
std::vector<double> with_numbers(const AttentionCase& c, AttentionNumbers numbers) {
  AttentionConfig config;
  config.num_heads = config.num_kv_heads = c[kAttentionQuery].dim(1);
  AttentionOperands operands;
  operands.query = &c[kAttentionQuery];
  operands.key = &c[kAttentionKey];
  operands.value = &c[kAttentionValue];
  AttentionProblem p = resolve_attention(config, operands);
  p.numbers = numbers;
  const Shape shape{p.batch, p.heads, p.query_length, p.value_width};
  Tensor context = Tensor::allocate(DataType::kFloat, shape);
  p.context = view_heads(context, p.heads, "context");
  std::vector<uint8_t> left_over(static_cast<size_t>(p.batch * p.heads * p.query_length));
  attend_blocked(p, left_over.data(), nullptr);
  for (const uint8_t left : left_over) EXPECT_EQ(left, 0);
  return context.to_double();
}

AttentionCase plain_case(CaseGenerator& g, int64_t tq, int64_t tk, int64_t e, int64_t f) {
  AttentionCase c;
  c[kAttentionQuery] = g.normal({2, 3, tq, e});
  c[kAttentionKey] = g.normal({2, 3, tk, e});
  c[kAttentionValue] = g.normal({2, 3, tk, f});
  return c;
}

// Rounds each row to whole multiples of its largest size / `most`.
void round_rows(Tensor& t, double most) {
  const int64_t width = t.dim(3);
  for (float* row = t.mutable_data<float>(); row < t.mutable_data<float>() + t.count(); row += width) {
    double largest = 0;
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::abs(static_cast<double>(row[i])));
    for (int64_t i = 0; i < width; ++i)
      row[i] = static_cast<float>(std::nearbyint(static_cast<double>(row[i]) * most / largest) * largest / most);
  }
}

double largest_of(const std::vector<double>& values) {
  double largest = 1e-30;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  return largest;
}

// Both ways to add products, on operands that rounding leaves as they are: what remains is that of the weights, to
// 1/4096 to 1/8192 of a block's largest, half of it up or down. Errors of 128 keys add up by chance.
TEST(AttentionRounded, EqualsFormulasOnRoundedOperands) {
  CaseGenerator g(1);
  for (const auto& [tq, tk, e, f] : {std::array<int64_t, 4>{8, 1, 1, 1},
                                     {9, 31, 3, 33},
                                     {48, 128, 64, 64},
                                     {50, 129, 64, 64},
                                     {100, 300, 31, 20},
                                     {13, 257, 128, 5},
                                     {16, 70, 129, 32},
                                     {11, 40, 512, 512}}) {
    SCOPED_TRACE(testing::Message() << tq << " " << tk << " " << e << " " << f);
    AttentionCase c = plain_case(g, tq, tk, e, f);
    const double most = std::min(32767.0, std::floor(std::sqrt(2147483647.0 / static_cast<double>(e))));
    round_rows(c[kAttentionQuery], most);
    round_rows(c[kAttentionKey], most);
    round_rows(c[kAttentionValue], 2047);
    c.attributes["num_heads"] = int64_t{3};
    const std::vector<double> expected = c.reference().context.values;
    for (const auto numbers : {AttentionNumbers::kWords, AttentionNumbers::kVnniWords}) {
      if (numbers == AttentionNumbers::kVnniWords) {
        AttentionProblem any;
        any.type = DataType::kFloat;
        if (rounded_numbers(any) != numbers) continue;  // not on this processor
      }
      const std::vector<double> got = with_numbers(c, numbers);
      const double close = 3e-4 * largest_of(c[kAttentionValue].to_double());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], close) << i;
    }
  }
}

// Masks, lengths, caps, caches, what isn't finite: as without rounding, up to its error.
class AttentionRoundedCases : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, AttentionRoundedCases, testing::Range(0U, 60U));

TEST_P(AttentionRoundedCases, AreCloseToFormulas) {
  CaseGenerator g(GetParam());
  AttentionCase c = g.next(/*large=*/true);
  while (c.attributes.contains("alignment")) c = g.next(true);  // a choice may move
  c.wanted = {true, false, false, false, false};
  c.attributes.erase("weights_output");
  SCOPED_TRACE(c.describe());
  const std::vector<double> got = rounded(c), expected = c.reference().context.values;
  ASSERT_EQ(got.size(), expected.size());
  const double close = 0.02 * largest_of(expected);
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(expected[i])) {
      ASSERT_NEAR(got[i], expected[i], close) << i;
    } else {
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i]) << i << ": " << got[i];
    }
  }
}

// Whatever stands in keys and values that a query doesn't see, its result is the same to the last bit.
TEST(AttentionRounded, DoesNotDependOnWhatIsNotSeen) {
  CaseGenerator g(2);
  for (const float unseen : {0.0F, 1e-3F, 1e6F, INFINITY}) {
    AttentionCase c = plain_case(g, 40, 200, 64, 64);
    c[kAttentionMask] = Tensor::allocate(DataType::kBool, {1, 1, 1, 200});
    for (int64_t i = 0; i < 200; ++i) c[kAttentionMask].mutable_data<bool>()[i] = i < 150 && i % 7 != 3;
    const std::vector<double> before = rounded(c);
    for (const auto input : {kAttentionKey, kAttentionValue}) {
      Tensor& t = c[input];
      for (int64_t row = 0; row < 2 * 3 * 200; ++row)
        if (!c[kAttentionMask].data<bool>()[row % 200])
          std::fill_n(t.mutable_data<float>() + row * 64, 64, row % 2 ? unseen : -unseen);
    }
    const std::vector<double> after = rounded(c);
    if (std::isinf(unseen)) {  // by another kernel, of floats
      for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(before[i], after[i], 0.01);
    } else {
      ASSERT_EQ(before, after) << unseen;
    }
  }
}

// Only where the model allows it, and weights that are put out are exact.
TEST(AttentionRounded, OnlyWhereAllowed) {
  CaseGenerator g(3);
  AttentionCase c = plain_case(g, 64, 128, 64, 64);
  const std::vector<double> exact = c.run()[kAttentionContext].to_double();
  AttentionProblem any;
  any.type = DataType::kFloat;
  EXPECT_EQ(rounded(c) == exact, rounded_numbers(any) == AttentionNumbers::kFloats);
  c.wanted[kAttentionWeights] = true;
  EXPECT_EQ(rounded(c), c.run()[kAttentionContext].to_double());
}

}  // namespace
}  // namespace attune
