#include "runtime/row_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/io/text.h"
#include "runtime/profile.h"
#include "runtime/session.h"

namespace attune {
namespace {

using testing::ElementsAre;

Tensor wave(const Shape& shape, float step) {
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = std::sin(step * static_cast<float>(i));
  return t;
}

std::string decoder(const std::string& inputs, const std::string& outputs, const std::string& body) {
  return R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]> g ()" + inputs + ") => (" + outputs + ") " +
         body;
}

// How the inputs of a decoder are read, all of them being candidates.
std::vector<RowUse> uses(const std::string& text) {
  const Model model = parse_model(text);
  return add_row_inputs(*model.graph, std::vector<bool>(model.graph->inputs().size(), true)).uses;
}

const std::string kPast = "float[b,2,t,4] pk, float[b,2,t,4] pv";

TEST(RowInputs, CachesAndMemoriesOfAttentions) {
  const std::string text =
      decoder("float[b,1,8] x, float[b,k,2] memory, " + kPast, "float[b,1,2] y, float[b,2,n,4] nk, float[b,2,n,4] nv",
              R"(<float[2,8] wk = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, int64 two = {2}> {
                s, nk, nv = ai.attune.Attention <num_heads = 2> (x, x, x, , , , , , , , , pk, pv)
                sizes = Shape(pk)
                length = Gather(sizes, two)
                wide = MatMul(memory, wk)
                y = ai.attune.Attention <num_heads = 2> (s, wide, memory)
              })");
  EXPECT_THAT(uses(text), ElementsAre(RowUse::kInOrder, RowUse::kSource, RowUse::kPast, RowUse::kPast));
}

TEST(RowInputs, OtherReadersKeepTheOrder) {
  const auto with = [&](const std::string& more) {
    return uses(decoder("float[b,1,8] x, float[b,k,8] memory, " + kPast,
                        "float[b,1,8] y, float[b,2,n,4] nk, float[b,2,n,4] nv",
                        R"(<int64 zero = {0}> {
                          s, nk, nv = ai.attune.Attention <num_heads = 2> (x, x, x, , , , , , , , , pk, pv)
                          y = ai.attune.Attention <num_heads = 2> (s, memory, memory))" +
                            more + "}"));
  };
  EXPECT_THAT(with(""), ElementsAre(RowUse::kInOrder, RowUse::kSource, RowUse::kPast, RowUse::kPast));
  // The batch is taken from the memory's size, or from that of one of the caches: the other one follows.
  EXPECT_THAT(with("sizes = Shape(memory) b = Gather(sizes, zero)"),
              ElementsAre(RowUse::kInOrder, RowUse::kInOrder, RowUse::kPast, RowUse::kPast));
  EXPECT_THAT(with("sizes = Shape(pk) b = Gather(sizes, zero)"),
              ElementsAre(RowUse::kInOrder, RowUse::kSource, RowUse::kInOrder, RowUse::kInOrder));
  EXPECT_THAT(with("sum = Add(memory, x)"),
              ElementsAre(RowUse::kInOrder, RowUse::kInOrder, RowUse::kPast, RowUse::kPast));
}

TEST(RowInputs, BranchesGiveMemoriesBackAsTheyCame) {
  const std::string text = decoder("bool first, float[b,1,8] x, float[b,2,k,4] ck, float[b,2,k,4] cv",
                                   "float[b,1,8] y, float[b,2,k,4] nk", R"({
      y, nk = If (first) <
        then_branch = t () => (float[b,1,8] z, float[b,2,k,4] zk) { z = Identity(x) zk = Neg(ck) },
        else_branch = e () => (float[b,1,8] w, float[b,2,k,4] ck) { w = ai.attune.Attention <num_heads = 2> (x, ck, cv) }
      >
    })");
  EXPECT_THAT(uses(text)[2], RowUse::kInOrder);  // Neg reads it
}

// A decoder whose projected memory is used by rows of several sources, and by fewer in the end.
TEST(RowInputs, MemoryIsProjectedOnceForAllOrders) {
  const std::string text = decoder("float[b,1,4] x, float[b,k,2] memory", "float[b,1,4] y",
                                   R"(<float[2,4] wk = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8},
                                      float[2,4] wv = {1, 2, -3, 4, 5, -6, 7, 8}> {
        y = ai.attune.Attention <num_heads = 2> (x, memory, memory, , wk, wv)
      })");
  const Model model = parse_model(text);
  PlanOptions options;
  options.fixed_inputs = {"memory"};
  Session plain(Plan::compile(model, options), {.threads = 1});
  const RowInputs rows = add_row_inputs(*model.graph, {false, true});
  ASSERT_EQ(rows.source_rows, "attune.source_rows");
  EXPECT_EQ(rows.past_rows, "");
  Profile profile;
  Session session(Plan::compile(model, options), {.threads = 1, .profile = &profile});
  const Tensor memory = wave({3, 6, 2}, 0.9F);
  session.fix({{"memory", memory}});
  size_t first = 0;
  for (const std::vector<int32_t>& order :
       std::vector<std::vector<int32_t>>{{}, {0, 0, 1, 1, 2, 2}, {2, 2, 0, 0}, {1}}) {
    const auto count = static_cast<int64_t>(order.empty() ? 3 : order.size());
    Tensor copied = Tensor::allocate(DataType::kFloat, {count, 6, 2});
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(memory.data<float>() + (order.empty() ? r : order[static_cast<size_t>(r)]) * 12, 12,
                  copied.mutable_data<float>() + r * 12);
    plain.fix({{"memory", copied}});
    const Tensor x = wave({count, 1, 4}, 0.3F);
    TensorMap inputs{{"x", x}};
    if (!order.empty()) inputs[rows.source_rows] = Tensor::from<int32_t>({count, 1}, order);
    EXPECT_EQ(session.run(std::move(inputs)).at("y").tensor().to_double(),
              plain.run({{"x", x}}).at("y").tensor().to_double());
    if (first == 0) first = profile.events().size();
  }
  EXPECT_GT(first, 2U);
  EXPECT_EQ(profile.events().size(), first + 3) << "something besides the attention ran again";
}

// Keys and values of sources take no more memory for many beams than for one.
TEST(RowInputs, MemoryDoesNotGrowWithBeams) {
  const Model model =
      parse_model(decoder("float[b,1,4] x, float[b,k,2] memory", "float[b,1,4] y",
                          R"(<float[2,4] wk = {1, 2, 3, 4, 5, 6, 7, 8}, float[2,4] wv = {1, 2, 3, 4, 5, 6, 7, 8}> {
        y = ai.attune.Attention <num_heads = 2> (x, memory, memory, , wk, wv)
      })"));
  const RowInputs rows = add_row_inputs(*model.graph, {false, true});
  PlanOptions options;
  options.fixed_inputs = {"memory"};
  const auto plan = Plan::compile(model, options);
  const auto peak = [&](int64_t beams) {
    Session session(plan, {.threads = 1});
    session.fix({{"memory", wave({2, 4000, 2}, 0.9F)}});
    std::vector<int32_t> order;
    for (int32_t source = 0; source < 2; ++source) order.insert(order.end(), static_cast<size_t>(beams), source);
    session.run(
        {{"x", wave({2 * beams, 1, 4}, 0.3F)}, {rows.source_rows, Tensor::from<int32_t>({2 * beams, 1}, order)}});
    return session.pool().peak_bytes();
  };
  constexpr size_t kOneCache = size_t{2} * 4000 * 4 * sizeof(float);
  EXPECT_GT(peak(1), 2 * kOneCache);
  EXPECT_LT(peak(16), peak(1) + kOneCache / 2);
}

}  // namespace
}  // namespace attune
