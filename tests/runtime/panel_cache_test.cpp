#include "runtime/panel_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

class PanelCacheTest : public testing::Test {
 protected:
  PanelCacheTest() { std::ofstream(model_) << "a model"; }

  PanelCache open(const std::string& options = "") const { return {file_, {model_}, options}; }
  // Asks for the weights; counts how often they were packed anew.
  std::shared_ptr<const PanelWeights> ask(PanelCache& cache, const Tensor& weights) {
    return cache.panels({{weights}}, [&] {
      ++packed_;
      return PanelWeights::pack(weights, false);
    });
  }
  // Fills the cache in a process of its own, so to say: nothing is held afterwards.
  void fill(const std::vector<Tensor>& weights) {
    PanelCache cache = open();
    for (const Tensor& w : weights) ask(cache, w);
    cache.save();
    packed_ = 0;
  }
  std::string contents() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  const test::TemporaryFolder folder_;
  const fs::path model_ = folder_ / "model.onnx", file_ = folder_ / "weights.panels";
  int packed_ = 0;
};

Tensor matrix(int64_t rows, int64_t columns, float first) {
  Tensor t = Tensor::allocate(DataType::kFloat, {rows, columns});
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = first + static_cast<float>(i);
  return t;
}

// x (1, K) w for x = 1, 2, ..., by the definition.
std::vector<float> product(const Tensor& w) {
  std::vector<float> y(static_cast<size_t>(w.dim(1)));
  for (int64_t k = 0; k < w.dim(0); ++k)
    for (int64_t n = 0; n < w.dim(1); ++n)
      y[static_cast<size_t>(n)] += static_cast<float>(k + 1) * w.data<float>()[k * w.dim(1) + n];
  return y;
}

std::vector<float> product(const PanelWeights& w) {
  std::vector<float> x(static_cast<size_t>(w.inner())), y(static_cast<size_t>(w.columns()));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  w.multiply(x.data(), w.inner(), 1, y.data(), w.columns());
  return y;
}

TEST_F(PanelCacheTest, GivesBackWhatWasKept) {
  const std::vector<Tensor> weights{matrix(3, 20, 1), matrix(5, 16, -2), matrix(3, 20, 1)};
  fill(weights);
  PanelCache cache = open();
  for (const Tensor& w : weights) EXPECT_EQ(product(*ask(cache, w)), product(w));
  EXPECT_EQ(packed_, 0);
}

TEST_F(PanelCacheTest, KeepsScalesOfQuantisedWeights) {
  const Tensor w = Tensor::from<int8_t>({2, 3}, {1, -2, 3, 4, 5, -6}),
               scales = Tensor::from<float>({1, 3}, {0.5F, 2, 1});
  const auto ask_for = [&](PanelCache& cache) {
    return cache.panels({{w, scales}}, [&] {
      ++packed_;
      return PanelWeights::pack_quantized(w, false, scales, 0);
    });
  };
  {
    PanelCache cache = open();
    ask_for(cache);
    cache.save();
  }
  packed_ = 0;
  PanelCache cache = open();
  // x = (1, 2)
  EXPECT_EQ(product(*ask_for(cache)), (std::vector<float>{0.5F * 9, 2.0F * 8, -9}));
  EXPECT_EQ(packed_, 0);
}

TEST_F(PanelCacheTest, OtherWeightsThanThoseKeptArePacked) {
  fill({matrix(3, 20, 1), matrix(5, 16, -2)});
  PanelCache cache = open();
  EXPECT_EQ(product(*ask(cache, matrix(3, 20, 7))), product(matrix(3, 20, 7)));
  EXPECT_EQ(product(*ask(cache, matrix(5, 16, -2))), product(matrix(5, 16, -2)));
  EXPECT_EQ(packed_, 1);
  cache.save();
  PanelCache again = open();
  EXPECT_EQ(product(*ask(again, matrix(3, 20, 7))), product(matrix(3, 20, 7)));
}

TEST_F(PanelCacheTest, BytesThatChangedArePackedAnew) {
  fill({matrix(3, 20, 1), matrix(5, 16, -2)});
  std::string changed = contents();
  const size_t second = changed.find(std::string("\0\0\0\xC0\0\0\x80\xBF", 8));  // -2, -1
  ASSERT_NE(second, std::string::npos);
  changed[second + 2] ^= 1;
  write(changed);
  PanelCache cache = open();
  EXPECT_EQ(product(*ask(cache, matrix(3, 20, 1))), product(matrix(3, 20, 1)));
  EXPECT_EQ(packed_, 0);
  EXPECT_EQ(product(*ask(cache, matrix(5, 16, -2))), product(matrix(5, 16, -2)));
  EXPECT_EQ(packed_, 1);
  cache.save();
  EXPECT_TRUE(contents() != changed);
}

TEST_F(PanelCacheTest, AnotherStateOfTheModelOrOtherOptionsMakeItEmpty) {
  fill({matrix(3, 20, 1)});
  {
    PanelCache other = open("alignments");
    ask(other, matrix(3, 20, 1));
    EXPECT_EQ(packed_, 1);
  }
  std::ofstream(model_) << "another model";
  PanelCache cache = open();
  ask(cache, matrix(3, 20, 1));
  EXPECT_EQ(packed_, 2);
}

TEST_F(PanelCacheTest, ADamagedFileCountsAsEmpty) {
  fill({matrix(3, 20, 1)});
  const std::string good = contents();
  std::vector<std::string> damaged{"", good.substr(0, 20), good.substr(0, good.size() - 1), good + "x"};
  for (size_t i = 0; i < 100; i += 3) {  // the head and the key
    damaged.push_back(good);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 0x55);
  }
  for (const std::string& bytes : damaged) {
    write(bytes);
    packed_ = 0;
    PanelCache cache = open();
    EXPECT_EQ(product(*ask(cache, matrix(3, 20, 1))), product(matrix(3, 20, 1)));
    EXPECT_EQ(packed_, 1);
    cache.save();
    EXPECT_TRUE(contents() == good);
  }
}

TEST_F(PanelCacheTest, WhatIsCompleteIsNotWrittenAgain) {
  fill({matrix(3, 20, 1)});
  const auto written = fs::last_write_time(file_);
  PanelCache cache = open();
  ask(cache, matrix(3, 20, 1));
  fs::last_write_time(file_, written - std::chrono::hours(1));
  cache.save();
  EXPECT_EQ(fs::last_write_time(file_), written - std::chrono::hours(1));
}

}  // namespace
}  // namespace attune
