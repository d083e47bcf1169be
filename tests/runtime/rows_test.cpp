#include "runtime/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/error_matchers.h"

namespace attune {
namespace {

TEST(Rows, AreGatheredAlongAnyAxis) {
  const Tensor t = Tensor::from<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  const std::array<int32_t, 3> rows{1, 1, 0};
  EXPECT_THAT(gather_rows(t, rows, nullptr).to_double(), testing::ElementsAre(3, 4, 5, 3, 4, 5, 0, 1, 2));
  EXPECT_THAT(gather_rows(t, rows, nullptr, 1).to_double(), testing::ElementsAre(1, 1, 0, 4, 4, 3));
}

TEST(Rows, OnesThatAreNotThereAreRefused) {
  const Tensor t = Tensor::from<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  for (const int32_t row : {-1, 2})
    EXPECT_THAT(test::error_of([&] {
                  gather_rows(t, std::array<int32_t, 2>{0, row}, nullptr);
                }),
                testing::HasSubstr("(2,3)"))
        << row;
}

}  // namespace
}  // namespace attune
