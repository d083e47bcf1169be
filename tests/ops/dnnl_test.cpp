#include "ops/support/dnnl.h"

#include <gtest/gtest.h>

#include <thread>

#include "ops/support/dnnl_lstm.h"
#include "ops/support/product.h"
#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

TEST(LruCache, KeepsTheLastUsed) {
  LruCache<int, int> cache(2);
  int made = 0;
  const auto get = [&](int key) { return *cache.get(key, [&] { return ++made, std::make_shared<const int>(key); }); };
  EXPECT_EQ(get(1), 1);
  EXPECT_EQ(get(2), 2);
  EXPECT_EQ(get(1), 1);
  EXPECT_EQ(get(3), 3);  // 2 goes
  EXPECT_EQ(made, 3);
  EXPECT_EQ(get(1), 1);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(get(2), 2);
  EXPECT_EQ(made, 4);
  EXPECT_EQ(cache.size(), 2U);
}

// The shapes of attention and of projections never meet oneDNN's reference implementation.
TEST(OneDnn, NoReferenceImplementation) {
  const onednn::MatMulSpec projection{{DataType::kFloat, {64, 512}, {512, 1}},
                                      {DataType::kFloat, {512, 2048}, {1, 512}},
                                      {DataType::kFloat, {64, 2048}, {2048, 1}}};
  const onednn::MatMulSpec scores{{DataType::kFloat, {2, 8, 40, 64}, {20480, 64, 512, 1}},
                                  {DataType::kFloat, {2, 8, 64, 50}, {25600, 64, 1, 512}},
                                  {DataType::kFloat, {2, 8, 40, 50}, {16000, 2000, 50, 1}}};
  for (const auto& spec : {projection, scores}) {
    const auto primitive = onednn::MatMul::make(spec);
    ASSERT_NE(primitive, nullptr);
    EXPECT_EQ(primitive->implementation().find("ref"), std::string::npos) << primitive->implementation();
  }
}

TEST(OneDnn, LstmHasNoReferenceImplementation) {
  const int64_t inputs = 40, hidden = 64, steps = 5, batch = 32;
  const onednn::Lstm lstm(random_tensor({4 * hidden, inputs}, 1), random_tensor({4 * hidden, hidden}, 2));
  EXPECT_EQ(lstm.implementation(), "");
  const Tensor x = random_tensor({steps, batch, inputs}, 3);
  Tensor h = random_tensor({batch, hidden}, 4), c = h.clone(), y = Tensor::allocate(x.type(), {steps, batch, hidden});
  const onednn::LstmCall call{x.data<float>(), nullptr, h.mutable_data<float>(), c.mutable_data<float>(),
                              y.mutable_data<float>()};
  if (lstm.run(call, steps, batch, false, nullptr)) {
    EXPECT_EQ(lstm.implementation().find("ref"), std::string::npos) << lstm.implementation();
    EXPECT_NE(lstm.implementation(), "");
  }
}

TEST(OneDnn, FailuresAreErrors) {
  const onednn::MatMulSpec wrong{
      {DataType::kFloat, {4, 5}, {5, 1}}, {DataType::kFloat, {6, 7}, {7, 1}}, {DataType::kFloat, {4, 7}, {7, 1}}};
  try {
    if (onednn::MatMul::make(wrong)) FAIL() << "inner sizes differ";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kInternal);
  }
}

TEST(FloatProduct, SharedByThreads) {
  const FloatProduct product;
  std::vector<std::thread> threads;
  std::vector<double> worst(4);
  for (size_t t = 0; t < worst.size(); ++t)
    threads.emplace_back([&, t] {
      for (int64_t m = 20; m < 60; ++m) {
        const Tensor a = random_tensor({m, 64}, static_cast<uint32_t>(m)), b = random_tensor({64, 48}, 1);
        Tensor c = Tensor::allocate(DataType::kFloat, {m, 48});
        product.run(MatrixView::of(a), MatrixView::of(b), c.mutable_data<float>(), nullptr);
        double want = 0;
        for (int64_t k = 0; k < 64; ++k)
          want += static_cast<double>(a.data<float>()[(m - 1) * 64 + k]) *
                  static_cast<double>(b.data<float>()[k * 48 + 47]);
        worst[t] = std::max(worst[t], std::abs(want - static_cast<double>(c.data<float>()[m * 48 - 1])));
      }
    });
  for (auto& thread : threads) thread.join();
  for (const double w : worst) EXPECT_LT(w, 1e-5);
}

}  // namespace
}  // namespace attune::testing
