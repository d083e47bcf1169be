#include <gtest/gtest.h>

#include <map>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

// All index tuples of the named letters (no ellipsis), one by one.
std::vector<double> reference(const std::vector<std::string>& terms, const std::string& result,
                              const std::vector<Tensor>& inputs) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t a = 0; a < terms[i].size(); ++a) sizes[terms[i][a]] = inputs[i].dim(a);
  std::string letters = result;
  for (const auto& [letter, size] : sizes)
    if (result.find(letter) == std::string::npos) letters += letter;
  int64_t results = 1, all = 1;
  for (const char l : result) results *= sizes[l];
  for (const char l : letters) all *= sizes[l];
  std::vector<double> y(static_cast<size_t>(results));
  for (int64_t flat = 0; flat < all; ++flat) {
    std::map<char, int64_t> at;
    int64_t rest = flat;
    for (size_t i = letters.size(); i-- > 0;) {
      at[letters[i]] = rest % sizes[letters[i]];
      rest /= sizes[letters[i]];
    }
    double term = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      int64_t index = 0;
      for (const char l : terms[i]) index = index * sizes[l] + at[l];
      term *= inputs[i].to_double()[static_cast<size_t>(index)];
    }
    y[static_cast<size_t>(flat / (all / results))] += term;
  }
  return y;
}

TEST(Einsum, EveryKindOfContraction) {
  const std::map<char, int64_t> sizes{{'a', 3}, {'b', 2}, {'c', 5}, {'d', 4}, {'h', 3}, {'n', 2}, {'s', 6}, {'t', 7}};
  const struct {
    std::vector<std::string> terms;
    std::string result;
  } rows[] = {
      {{"bnhtc", "bnhsc"}, "bnhts"},
      {{"bnhts", "bnhsc"}, "bnhtc"},
      {{"bntc", "bncs"}, "bnts"},
      {{"ab", "bc"}, "ac"},
      {{"ab", "bc"}, "ca"},
      {{"abc", "cd"}, "abd"},
      {{"bthd", "bshd"}, "bhts"},
      {{"bhts", "bshd"}, "bthd"},
      {{"ab"}, "ba"},
      {{"ab"}, ""},
      {{"ab"}, "b"},
      {{"aa"}, "a"},
      {{"aa"}, ""},
      {{"a", "b"}, "ab"},
      {{"ab", "ab"}, "ab"},
      {{"ab", "ab"}, ""},
      {{"abc", "abd"}, "cd"},
      {{"ab", "bc", "cd"}, "ad"},
      {{"ab", "cd"}, "bd"},
      {{"abcd", "cdab"}, "ab"},
      {{"aab", "b"}, "a"},
  };
  for (const auto& [terms, result] : rows) {
    std::string equation;
    std::vector<Tensor> floats, integers;
    for (size_t i = 0; i < terms.size(); ++i) {
      equation += (i ? "," : "") + terms[i];
      Shape shape;
      for (const char l : terms[i]) shape.push_back(sizes.at(l));
      floats.push_back(random_tensor(shape, static_cast<uint32_t>(i)));
      integers.push_back(random_integers<int32_t>(shape, static_cast<uint32_t>(i), -9, 9));
    }
    equation += "->" + result;
    const Attributes attributes{{"equation", equation}};
    EXPECT_LT(largest_error(run_node({.type = "Einsum", .attributes = attributes}, floats)[0].tensor(),
                            reference(terms, result, floats)),
              1e-5)
        << equation;
    EXPECT_EQ(run_node({.type = "Einsum", .attributes = attributes}, integers)[0].tensor().to_double(),
              reference(terms, result, integers))
        << equation;
  }
}

TEST(Einsum, EllipsisBroadcastsAndTheImplicitFormSorts) {
  const Tensor a = random_tensor({2, 1, 3, 4}, 1), b = random_tensor({5, 4, 6}, 2);
  const auto y = run_node({.type = "Einsum", .attributes = {{"equation", std::string("...ij, ...jk")}}}, {a, b});
  ASSERT_EQ(y[0].tensor().shape(), (Shape{2, 5, 3, 6}));
  const auto want = run_node({.type = "MatMul"}, {a, b});
  EXPECT_LT(largest_error(y[0].tensor(), want[0].tensor().to_double()), 1e-5);
  EXPECT_EQ(run_node({.type = "Einsum", .attributes = {{"equation", std::string("ba")}}}, {random_tensor({2, 3}, 1)})[0]
                .tensor()
                .shape(),
            (Shape{3, 2}));
}

TEST(Einsum, RefusesWhatDoesNotFit) {
  const Tensor a = random_tensor({2, 3}, 1);
  for (const std::string equation : {"abc->a", "ab,bc->ac", "ab->z", "ab->aab", "a.b->a"})
    EXPECT_THROW(run_node({.type = "Einsum", .attributes = {{"equation", equation}}}, {a}), Error) << equation;
  EXPECT_THROW(run_node({.type = "Einsum", .attributes = {{"equation", std::string("ab,bc->ac")}}},
                        {a, random_tensor({4, 5}, 2)}),
               Error);
}

// The shapes of numpy.einsum.
TEST(Einsum, OneSpreadsOverNothing) {
  const auto result = [](const std::string& equation, const Shape& a, const Shape& b) {
    return run_node({.type = "Einsum", .attributes = {{"equation", equation}}},
                    {random_tensor(a, 1), random_tensor(b, 2)})[0]
        .tensor();
  };
  EXPECT_EQ(result("ij,jk->ik", {2, 0}, {1, 3}).to_double(), std::vector<double>(6, 0.0));
  EXPECT_EQ(result("ij,jk->ik", {2, 1}, {0, 3}).to_double(), std::vector<double>(6, 0.0));
  EXPECT_EQ(result("bi,bi->bi", {0, 2}, {1, 2}).shape(), (Shape{0, 2}));
  EXPECT_EQ(result("bij,bjk->bik", {1, 2, 3}, {0, 3, 4}).shape(), (Shape{0, 2, 4}));
}

}  // namespace
}  // namespace attune::testing
