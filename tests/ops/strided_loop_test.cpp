#include "ops/support/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "graph/error.h"

namespace attune {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> visited(const Loop<2>& loop, int64_t begin, int64_t end) {
  std::vector<int64_t> offsets;
  loop.rows(begin, end, [&](const Loop<2>::Offsets& at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) offsets.push_back(at[0] + i * loop.row_strides()[0]);
  });
  return offsets;
}

TEST(Loop, MergesAxesThatAllOperandsAllow) {
  Loop<2> loop;
  loop.add_axis(2, {12, 12});
  loop.add_axis(1, {99, 99});
  loop.add_axis(3, {4, 4});
  loop.add_axis(4, {1, 1});
  EXPECT_EQ(loop.rank(), 1u);
  EXPECT_EQ(loop.count(), 24);
  Loop<2> broken;
  broken.add_axis(2, {12, 12});
  broken.add_axis(3, {4, 0});
  broken.add_axis(4, {1, 1});
  EXPECT_EQ(broken.rank(), 3u);
}

TEST(Loop, PartsCoverTheWholeInOrder) {
  Loop<2> loop;  // a transposed (3, 4) with a gap
  loop.add_axis(4, {1, 3});
  loop.add_axis(3, {10, 1});
  const std::vector<int64_t> all = visited(loop, 0, 12);
  EXPECT_THAT(all, ElementsAre(0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23));
  for (int64_t begin = 0; begin <= 12; ++begin)
    for (int64_t end = begin; end <= 12; ++end)
      EXPECT_EQ(visited(loop, begin, end), std::vector<int64_t>(all.begin() + begin, all.begin() + end));
}

TEST(Loop, ScalarsAndEmptyAxes) {
  Loop<2> scalar;
  EXPECT_THAT(visited(scalar, 0, scalar.count()), ElementsAre(0));
  Loop<2> empty;
  empty.add_axis(0, {1, 1});
  empty.add_axis(3, {1, 1});
  EXPECT_TRUE(visited(empty, 0, empty.count()).empty());
}

TEST(Loop, BroadcastStrides) {
  const Shape strides = broadcast_strides({3, 1, 5}, {2, 3, 4, 5});
  EXPECT_EQ(strides, (Shape{0, 5, 0, 1}));
  EXPECT_THROW(broadcast_strides({3}, {4}), Error);
  EXPECT_THROW(broadcast_strides({1, 3}, {3}), Error);
}

}  // namespace
}  // namespace attune
