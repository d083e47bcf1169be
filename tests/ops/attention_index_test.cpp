// ai.attune::Attention over keys, values and caches whose rows lie elsewhere than in order: as over copies of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/op.h"
#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::AttentionCase;
using test::CaseGenerator;
using Rows = std::vector<int32_t>;

// Runs a case whose past is given away.
std::vector<Tensor> run_moved(AttentionCase c) {
  Graph graph;
  const Node* node = c.add_to(graph);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(SimpleContext(*node, 1));
  std::vector<Datum> inputs;
  for (size_t i = 0; i < node->inputs().size(); ++i) inputs.emplace_back(std::move(c.inputs[i]));
  SimpleCall call(std::move(inputs), node->output_count(), nullptr);
  kernel->run(call);
  std::vector<Tensor> out;
  for (Datum& d : call.outputs()) out.push_back(d.defined() ? std::move(d.tensor()) : Tensor());
  out.resize(kAttentionOutputs);
  return out;
}

Tensor index(const std::vector<Rows>& rows) {
  Rows all;
  for (const Rows& r : rows) all.insert(all.end(), r.begin(), r.end());
  return Tensor::from<int32_t>({static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, all);
}

// Row r of the result is row rows[r] of `t`.
Tensor gathered(const Tensor& t, const Rows& rows) {
  Shape shape = t.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  Tensor out = Tensor::allocate(t.type(), shape);
  const size_t bytes = t.bytes() / static_cast<size_t>(t.dim(0));
  for (size_t r = 0; r < rows.size(); ++r)
    std::memcpy(out.mutable_raw() + r * bytes, t.raw() + static_cast<size_t>(rows[r]) * bytes, bytes);
  return out;
}

void expect_equal(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  ASSERT_EQ(a.to_double(), b.to_double()) << what;
}

// Cross-attention of beams (and of rows that are left after others went) over the memories of their sources.
TEST(AttentionIndex, RowsShareAMemory) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble})
    for (const Rows& rows : {Rows{0, 0, 0, 1, 1, 1, 2, 2, 2}, {2, 2, 0, 0}, {0, 2}, {1, 1, 1, 0}})
      for (const std::string weights : {"", "normalized", "head_mean"})
        for (const int64_t mask_rank : {0, 2, 4})
          for (const int64_t queries : {1, 9}) {
            CaseGenerator g(static_cast<unsigned>(rows.size()), type);
            const auto batch = static_cast<int64_t>(rows.size());
            const Tensor key = g.normal({3, 2, 37, 24}), value = g.normal({3, 2, 37, 8});
            AttentionCase c;
            c[kAttentionQuery] = g.normal({batch, queries, 4 * 24});
            c[kAttentionKey] = gathered(key, rows);
            c[kAttentionValue] = gathered(value, rows);
            c.attributes["num_heads"] = int64_t{4};
            if (!weights.empty()) {
              c.wanted[kAttentionWeights] = true;
              c.attributes["weights_output"] = weights;
            }
            if (mask_rank == 2) c[kAttentionMask] = g.normal({queries, 37});
            if (mask_rank == 4) c[kAttentionMask] = g.normal({batch, 1, 1, 37});
            const auto expected = c.run();
            c[kAttentionKey] = key;
            c[kAttentionValue] = value;
            c.inputs.resize(kAttentionMemoryRows + 1);
            std::vector<Rows> column;
            for (const int32_t r : rows) column.push_back({r});
            c.inputs[kAttentionMemoryRows] = index(column);
            const auto got = c.run();
            expect_equal(got[kAttentionContext], expected[kAttentionContext], c.describe());
            if (!weights.empty()) expect_equal(got[kAttentionWeights], expected[kAttentionWeights], c.describe());
          }
}

// Projections of the memory are made of its own rows.
TEST(AttentionIndex, MemoryIsProjectedOnceForEachSource) {
  CaseGenerator g(21);
  const Rows rows{0, 0, 0, 1, 1, 1};
  const Tensor memory = g.normal({2, 5, 6});
  AttentionCase c;
  c[kAttentionQuery] = g.normal({6, 1, 8});
  c[kAttentionKey] = gathered(memory, rows);
  c[kAttentionKeyWeight] = g.normal({6, 8});
  c[kAttentionValueWeight] = g.normal({6, 8});
  c.attributes["num_heads"] = int64_t{2};
  const auto expected = c.run();
  c[kAttentionKey] = memory;
  c.inputs.resize(kAttentionMemoryRows + 1);
  c.inputs[kAttentionMemoryRows] = index({{0}, {0}, {0}, {1}, {1}, {1}});
  const auto got = c.run()[kAttentionContext].to_double(), wanted = expected[kAttentionContext].to_double();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
}

// Caches that are reordered at each step, by an index and by copies. With the index nothing is copied but what is new.
class Reordered {
 public:
  static constexpr int64_t kSteps = 60;

  Reordered(DataType type, size_t batch) : generator_(11, type) {
    indexed_.attributes["num_heads"] = int64_t{2};
    indexed_.wanted[kAttentionPresentKey] = indexed_.wanted[kAttentionPresentValue] = true;
    const auto rows = static_cast<int64_t>(batch);
    for (const auto past : {kAttentionPastKey, kAttentionPastValue})
      indexed_[past] = Tensor::allocate(type, {rows, 2, 0, 16});
    copied_ = indexed_;
    indexed_.inputs.resize(kAttentionPastRows + 1);
    for (size_t i = 0; i < batch; ++i) table_.push_back({static_cast<int32_t>(i)});
  }

  void step(const std::vector<int32_t>& parents) {
    const auto batch = static_cast<int64_t>(parents.size());
    indexed_[kAttentionQuery] = copied_[kAttentionQuery] = generator_.normal({batch, 1, 32});
    // The table: its own row for what comes, then where each earlier position lies.
    std::vector<Rows> next;
    for (size_t i = 0; i < parents.size(); ++i) {
      const Rows& parent = table_[static_cast<size_t>(parents[i])];
      Rows row{static_cast<int32_t>(i)};
      row.insert(row.end(), parent.begin() + 1, parent.end());
      if (length_ >= static_cast<int64_t>(row.size())) row.push_back(parent[0]);
      next.push_back(std::move(row));
    }
    table_ = std::move(next);
    indexed_.inputs[kAttentionPastRows] = index(table_);
    for (const auto past : {kAttentionPastKey, kAttentionPastValue})
      if (length_ > 0) copied_[past] = gathered(copied_[past].to_contiguous(), parents);
    if (length_ == 0)
      for (const auto past : {kAttentionPastKey, kAttentionPastValue})
        copied_[past] = Tensor::allocate(copied_[past].type(), {batch, 2, 0, 16});
    const auto expected = copied_.run();
    auto got = run_moved(std::exchange(indexed_, without_past()));
    expect_equal(got[kAttentionContext], expected[kAttentionContext], "step " + std::to_string(length_));
    moved_.push_back(got[kAttentionPresentKey].raw());
    indexed_[kAttentionPastKey] = std::move(got[kAttentionPresentKey]);
    indexed_[kAttentionPastValue] = std::move(got[kAttentionPresentValue]);
    copied_[kAttentionPastKey] = expected[kAttentionPresentKey];
    copied_[kAttentionPastValue] = expected[kAttentionPresentValue];
    ++length_;
  }

  const std::vector<const std::byte*>& memory() const { return moved_; }
  int64_t memory_rows() const { return indexed_[kAttentionPastKey].dim(0); }

 private:
  // A copy that doesn't hold the caches.
  AttentionCase without_past() const {
    AttentionCase c = indexed_;
    c[kAttentionPastKey] = c[kAttentionPastValue] = Tensor();
    return c;
  }

  CaseGenerator generator_;
  AttentionCase indexed_, copied_;
  std::vector<Rows> table_;
  int64_t length_ = 0;
  std::vector<const std::byte*> moved_;  // where the keys lay after each step
};

TEST(AttentionIndex, ReorderedCachesGrowInPlace) {
  for (const DataType type : {DataType::kFloat, DataType::kBFloat16}) {
    std::mt19937 random(3);
    Reordered caches(type, 6);
    size_t before = 6;
    for (int64_t step = 0; step < Reordered::kSteps; ++step) {
      std::vector<int32_t> parents;
      const size_t batch = step < 30 ? 6 : 4;  // a source ends in the middle
      for (size_t i = 0; i < batch; ++i)
        parents.push_back(step == 0 ? static_cast<int32_t>(i) : static_cast<int32_t>(random() % before));
      before = batch;
      caches.step(parents);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_THAT(caches.memory(), testing::Each(caches.memory()[0])) << "caches were copied";
    EXPECT_EQ(caches.memory_rows(), 6);
  }
}

// The prompt has a row for each source; then beams need one each.
TEST(AttentionIndex, CachesGetTheRowsThatBeamsNeed) {
  Reordered caches(DataType::kFloat, 2);
  caches.step({0, 1});
  caches.step({0, 0, 0, 1, 1, 1});
  EXPECT_EQ(caches.memory_rows(), 6);
  for (int i = 0; i < 5; ++i) caches.step({0, 2, 2, 5, 4, 4});
  EXPECT_EQ(caches.memory_rows(), 6);
}

TEST(AttentionIndex, NamesWhatIsWrong) {
  CaseGenerator g(2);
  const auto message = [&](const std::vector<Rows>& memory_rows, const std::vector<Rows>& past_rows) {
    AttentionCase c;
    c[kAttentionQuery] = g.normal({2, 1, 4});
    c.inputs.resize(kAttentionPastRows + 1);
    if (!memory_rows.empty()) {
      c[kAttentionKey] = g.normal({1, 1, 3, 4});
      c.inputs[kAttentionMemoryRows] = index(memory_rows);
    }
    if (!past_rows.empty()) {
      c[kAttentionPastKey] = g.normal({2, 1, 3, 4});
      c[kAttentionPastValue] = g.normal({2, 1, 3, 4});
      c.inputs[kAttentionPastRows] = index(past_rows);
    }
    try {
      c.run();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  using testing::HasSubstr;
  EXPECT_EQ(message({{0}, {0}}, {}), "none");
  EXPECT_THAT(message({{0}, {1}}, {}), HasSubstr("memory_rows: expected rows from 0 to 0"));
  EXPECT_THAT(message({{0}, {-1}}, {}), HasSubstr("memory_rows: expected rows from 0 to 0"));
  EXPECT_THAT(message({{0}}, {}), HasSubstr("memory_rows: expected shape (B,1+columns)"));
  EXPECT_EQ(message({}, {{0, 1}, {1, 1}}), "none");
  EXPECT_THAT(message({}, {{0}, {0}}), HasSubstr("past_rows: expected a row of its own"));
  EXPECT_THAT(message({}, {{0, 2}, {1, 1}}), HasSubstr("past_rows: expected rows from 0 to 1, got 2"));
  EXPECT_THAT(message({}, {{0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}}), HasSubstr("past_rows: expected at most 3 positions"));
}

}  // namespace
}  // namespace attune
