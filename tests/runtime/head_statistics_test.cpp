// Which queries of a decoder count, whatever the calls they come in.
#include "runtime/diagnosis/head_statistics.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

// One source of three positions; each query attends to one of them, in this order.
const std::vector<size_t> kAttended{0, 1, 1, 2, 0};

// Queries [from, to) of a decoder, in one call.
void add(HeadStatistics& statistics, AttentionKind kind, size_t from, size_t to) {
  const auto queries = static_cast<int64_t>(to - from);
  const int64_t keys = kind == AttentionKind::kCross ? 3 : static_cast<int64_t>(to);
  std::vector<float> weights(static_cast<size_t>(queries * keys), 0.0F);
  for (size_t q = from; q < to; ++q) {
    const size_t attended = kind == AttentionKind::kCross ? kAttended[q] : q;
    weights[(q - from) * static_cast<size_t>(keys) + attended] = 1;
  }
  AttentionTap tap;
  tap.kind = kind;
  const std::vector<size_t> sources{0};
  const std::vector<float> context(static_cast<size_t>(queries), 1.0F);
  statistics.add({tap, false, Tensor::from<float>({1, 1, queries, keys}, weights),
                  Tensor::from<float>({1, queries, 1}, context), sources, Tensor::from<int64_t>({1, 3}, {1, 1, 1})});
}

void expect_each_query_once(const std::vector<std::pair<size_t, size_t>>& calls) {
  HeadStatistics statistics({{false, false, false}});
  for (const auto& [from, to] : calls)
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCross}) add(statistics, kind, from, to);
  const auto heads = statistics.results({});
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[0].kind, AttentionKind::kSelf);
  EXPECT_EQ(heads[0].queries, 4U) << "the first token sees itself only";
  EXPECT_EQ(heads[0].self, 1) << "positions are those of the whole output";
  EXPECT_EQ(heads[1].queries, 5U);
  EXPECT_DOUBLE_EQ(heads[1].one_position, 0.4);
  // Tokens of the output come from queries 2, 3 and 4.
  EXPECT_EQ(statistics.coverage(), (std::vector<std::vector<double>>{{1, 1, 1}}));
}

TEST(HeadStatistics, APromptAndItsContinuationWithCaches) { expect_each_query_once({{0, 3}, {3, 4}, {4, 5}}); }

TEST(HeadStatistics, WithoutCachesEarlierQueriesComeAgain) { expect_each_query_once({{0, 3}, {0, 4}, {0, 5}}); }

}  // namespace
}  // namespace attune
