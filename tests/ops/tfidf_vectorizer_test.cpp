#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

Attributes vectorizer(const std::string& mode, int64_t shortest, int64_t longest, int64_t skips) {
  return {{"mode", mode},
          {"min_gram_length", shortest},
          {"max_gram_length", longest},
          {"max_skip_count", skips},
          {"ngram_counts", Ints{0, 4}},
          {"ngram_indexes", Ints{0, 1, 2, 3, 4, 5, 6}},
          {"pool_int64s", Ints{2, 3, 5, 4, 5, 6, 7, 8, 6, 7}}};  // 1-grams 2 3 5 4; 2-grams (5,6) (7,8) (6,7)
}

TEST(TfIdfVectorizer, CountsGramsWithGaps) {
  const Tensor x = make(DataType::kInt32, {2, 6}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
  const auto counts = [&](int64_t shortest, int64_t longest, int64_t skips) {
    return run({"TfIdfVectorizer", vectorizer("TF", shortest, longest, skips)}, {x});
  };
  EXPECT_EQ(difference(counts(1, 1, 0), floats({2, 7}, {0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})), "");
  EXPECT_EQ(difference(counts(2, 2, 0), floats({2, 7}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1})), "");
  EXPECT_EQ(difference(counts(2, 2, 5), floats({2, 7}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1})), "");
  EXPECT_EQ(difference(counts(1, 2, 0), floats({2, 7}, {0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1})), "");
}

TEST(TfIdfVectorizer, WeightsWordsAndRefusals) {
  Attributes words = {{"mode", std::string("IDF")},
                      {"min_gram_length", int64_t{1}},
                      {"max_gram_length", int64_t{1}},
                      {"max_skip_count", int64_t{0}},
                      {"ngram_counts", Ints{0}},
                      {"ngram_indexes", Ints{1, 0}},
                      {"pool_strings", std::vector<std::string>{"a", "b"}},
                      {"weights", std::vector<float>{2, 3}}};
  const Tensor x = Tensor::from_strings({3}, {"b", "c", "b"});
  EXPECT_EQ(difference(run({"TfIdfVectorizer", words}, {x}), floats({2}, {3, 0})), "");
  words.insert_or_assign("mode", std::string("TFIDF"));
  EXPECT_EQ(difference(run({"TfIdfVectorizer", words}, {x}), floats({2}, {6, 0})), "");
  words.insert_or_assign("ngram_counts", Ints{5});
  EXPECT_NE(failure({"TfIdfVectorizer", words}, {x}), "");
  EXPECT_NE(failure({"TfIdfVectorizer", vectorizer("COUNT", 1, 1, 0)}, {ints({1})}), "");
}

}  // namespace
}  // namespace attune::testing
