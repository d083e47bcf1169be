#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(ReverseSequence, BothLayouts) {
  const Tensor x = counting({3, 4, 2});
  const Tensor lengths = ints({0, 3, 2, 1});
  const Tensor time_major = tabulate(DataType::kFloat, x.shape(), [&](const Shape& i) {
    const auto n = static_cast<int64_t>(at(lengths, {i[1]}));
    return at(x, {i[0] < n ? n - 1 - i[0] : i[0], i[1], i[2]});
  });
  EXPECT_EQ(difference(run({"ReverseSequence"}, {x, lengths}), time_major), "");
  const Tensor batch_lengths = ints({4, 1, 2});
  const Tensor batch_major = tabulate(DataType::kFloat, x.shape(), [&](const Shape& i) {
    const auto n = static_cast<int64_t>(at(batch_lengths, {i[0]}));
    return at(x, {i[0], i[1] < n ? n - 1 - i[1] : i[1], i[2]});
  });
  const Call call{"ReverseSequence", {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}};
  EXPECT_EQ(difference(run(call, {x, batch_lengths}), batch_major), "");
  EXPECT_THAT(failure(call, {x, ints({5, 1, 1})}), ::testing::HasSubstr("0 to 4"));
  EXPECT_NE(failure(call, {x, ints({1, 1})}), "");
  EXPECT_NE(failure({"ReverseSequence", {{"batch_axis", int64_t{1}}, {"time_axis", int64_t{1}}}}, {x, lengths}), "");
}

}  // namespace
}  // namespace attune::testing
