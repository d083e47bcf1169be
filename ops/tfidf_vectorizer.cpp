// TfIdfVectorizer: how often each n-gram of a pool occurs in a row, with gaps between its items.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "ops/op.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// The n-grams of the pool by their items, which are numbers or words.
template <class T>
using Pool = std::map<std::vector<T>, size_t>;

// ngram_counts[n - 1] is where the n-grams start among the items.
template <class T>
Pool<T> make_pool(const std::vector<T>& items, const std::vector<int64_t>& starts) {
  Pool<T> pool;
  size_t next = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto end = static_cast<size_t>(n < starts.size() ? starts[n] : static_cast<int64_t>(items.size()));
    if (starts[n - 1] < 0 || end > items.size() || static_cast<size_t>(starts[n - 1]) > end)
      throw Error(Error::Kind::kInvalidModel, fmt::format("ngram_counts: {} of {} items", starts[n - 1], items.size()));
    for (auto at = static_cast<size_t>(starts[n - 1]); at + n <= end; at += n) {
      const auto first = items.begin() + static_cast<std::ptrdiff_t>(at);
      pool.emplace(std::vector<T>(first, first + static_cast<std::ptrdiff_t>(n)), next++);
    }
  }
  return pool;
}

class TfIdfVectorizerKernel final : public Kernel {
 public:
  explicit TfIdfVectorizerKernel(const KernelContext& context) {
    const Node& node = context.node();
    mode_ = node.attr_string("mode", "TF");
    if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF")
      throw Error(Error::Kind::kInvalidModel, fmt::format("mode '{}' is not known", mode_));
    shortest_ = std::max<int64_t>(1, node.attr_int("min_gram_length", 1));
    longest_ = node.attr_int("max_gram_length", 1);
    skips_ = std::clamp<int64_t>(node.attr_int("max_skip_count", 0), 0, INT32_MAX);
    columns_ = node.attr_ints("ngram_indexes");
    if (const auto* weights = node.find<std::vector<float>>("weights")) weights_ = *weights;
    const auto starts = node.attr_ints("ngram_counts");
    if (const auto* words = node.find<std::vector<std::string>>("pool_strings")) words_ = make_pool(*words, starts);
    if (node.has("pool_int64s")) numbers_ = make_pool(node.attr_ints("pool_int64s"), starts);
    for (const int64_t column : columns_) {
      if (column < 0 || column > (int64_t{1} << 31))
        throw Error(Error::Kind::kInvalidModel, fmt::format("ngram_indexes: {}", column));
      width_ = std::max(width_, column + 1);
    }
    if (std::max(words_.size(), numbers_.size()) > columns_.size() ||
        (!weights_.empty() && weights_.size() != columns_.size()))
      throw Error(Error::Kind::kInvalidModel, "pool, ngram_indexes and weights differ in length");
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (in.rank() != 1 && in.rank() != 2) fail_input(0, "rank 1 or 2", in.shape().to_string());
    Shape shape = in.shape();
    shape.back() = width_;
    Tensor& out = call.output(0, DataType::kFloat, shape);
    std::fill_n(out.mutable_data<float>(), out.count(), 0.0f);
    const int64_t rows = shape.count(0, shape.rank() - 1);
    if (in.type() == DataType::kString) {
      count_rows<std::string>(words_, in.strings(), rows, out.mutable_data<float>());
    } else {
      count_rows<int64_t>(numbers_, in.to_int64(), rows, out.mutable_data<float>());
    }
  }

 private:
  template <class T>
  void count_rows(const Pool<T>& pool, std::span<const T> items, int64_t rows, float* counts) const {
    const size_t length = rows ? items.size() / static_cast<size_t>(rows) : 0;
    for (int64_t row = 0; row < rows; ++row)
      count(pool, items.subspan(static_cast<size_t>(row) * length, length), counts + row * width_);
  }

  template <class T>
  void count(const Pool<T>& pool, std::span<const T> row, float* counts) const {
    const auto length = static_cast<int64_t>(row.size());
    for (int64_t n = shortest_; n <= std::min(longest_, length); ++n)
      // Gaps make no difference to single items.
      for (int64_t step = 1; step <= (n == 1 ? 1 : skips_ + 1) && (n - 1) * step < length; ++step)
        for (int64_t start = 0; start + (n - 1) * step < length; ++start) {
          std::vector<T> gram;
          for (int64_t k = 0; k < n; ++k) gram.push_back(row[static_cast<size_t>(start + k * step)]);
          if (const auto found = pool.find(gram); found != pool.end()) add(found->second, counts);
        }
  }

  void add(size_t gram, float* counts) const {
    float& value = counts[columns_[gram]];
    const float weight = weights_.empty() ? 1 : weights_[gram];
    if (mode_ == "TF") value += 1;
    if (mode_ == "IDF") value = weight;
    if (mode_ == "TFIDF") value += weight;
  }

  std::string mode_;
  int64_t shortest_ = 1, longest_ = 1, skips_ = 0, width_ = 0;
  std::vector<int64_t> columns_;
  std::vector<float> weights_;
  Pool<std::string> words_;
  Pool<int64_t> numbers_;
};

}  // namespace

std::vector<OpDef> ops_in_tfidf_vectorizer() { return {{"", "TfIdfVectorizer", 9, prepare<TfIdfVectorizerKernel>}}; }

}  // namespace attune
