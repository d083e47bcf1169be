// Bisection: each prefix of the rewrites gives a model that computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::SpoiledAttention;

void expect_each_prefix_to_verify(const std::string& text) {
  const Model source = parse_model(text);
  const size_t all = Converted(text).report.rewrites.size();
  ASSERT_GT(all, 4U);
  for (size_t n = 0; n <= all; ++n) {
    Model model = parse_model(text);
    Report report;
    PassOptions options;
    options.max_rewrites = static_cast<int64_t>(n);
    optimize(model, report, options);
    model.graph->verify();
    EXPECT_EQ(report.rewrites.size(), n);
    EXPECT_TRUE(verify(source, model).passed()) << n;
  }
}

TEST(MaxRewrites, OfPlainAttention) { expect_each_prefix_to_verify(SpoiledAttention().text()); }
TEST(MaxRewrites, OfGroupedHeads) { expect_each_prefix_to_verify(SpoiledAttention::grouped().text()); }
TEST(MaxRewrites, OfPackedProjections) { expect_each_prefix_to_verify(SpoiledAttention::packed().text()); }
TEST(MaxRewrites, InABody) { expect_each_prefix_to_verify(SpoiledAttention().text_in_loop()); }

}  // namespace
}  // namespace attune
