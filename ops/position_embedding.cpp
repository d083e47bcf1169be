// ai.attune PositionEmbedding: states, scaled, plus the row of a table that belongs to the position of each.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/float_tensor.h"
#include "ops/support/half.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/stored_weights.h"
#include "ops/support/vector_math.h"

namespace attune {
namespace {

// y = scale x + row, of n elements.
void scale_and_add(const float* x, float scale, const float* row, float* y, int64_t n) {
  const auto count = static_cast<size_t>(n);
  if (scale != 1) {
    vector_math::multiply(x, 1, &scale, 0, y, count);
    x = y;
  }
  vector_math::add(x, 1, row, 1, y, count);
}
void scale_and_add(const double* x, double scale, const double* row, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i] + row[i];
}

class PositionEmbeddingKernel final : public Kernel {
 public:
  explicit PositionEmbeddingKernel(const KernelContext& context)
      : scale_(context.node().attr_float("scale", 1)), offset_(context.node().attr_int("offset", 0)) {
    if (context.options().pack_weights) table_ = stored_matrix(context, 1);
  }

  // x (..., T, D), table (rows, D), the position of the first, tokens (batch, at least T).
  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    if (x.rank() < 2) fail_input(0, "rank 2 or more", x.shape().to_string());
    const Shape table = table_ ? table_->values.shape() : call.input(1).shape();
    const int64_t width = x.dim(x.rank() - 1), positions = x.dim(x.rank() - 2);
    if (table.rank() != 2 || table[1] != width) fail_input(1, fmt::format("(rows, {})", width), table.to_string());
    const int64_t start = call.has(2) ? read_integer(call, 2) : 0;
    const int64_t batch = x.shape().count(0, x.rank() - 2);
    const std::vector<int64_t> rows =
        call.has(3) ? rows_of_tokens(call.input(3), start, batch, positions) : rows_in_order(start, positions);
    check_rows(rows, table[0], call.has(3));
    dispatch<float, double, Float16, BFloat16>(x.type(), [&]<class T>() { add_rows<T>(call, rows, table[0]); });
  }
  bool uses_input(size_t i) const override { return i != 1 || !table_; }
  std::string implementation() const override { return table_ ? "widen" : "native"; }

 private:
  // `from_one`: the first token of a sequence is counted as one.
  void check_rows(const std::vector<int64_t>& rows, int64_t table_rows, bool from_one) const {
    if (rows.empty()) return;
    const auto [least, largest] = std::minmax_element(rows.begin(), rows.end());
    if (*largest >= table_rows)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("a sequence of {} positions: the table of positions is for {} at most (row {} of {})",
                              *largest - offset_ + (from_one ? 0 : 1), table_rows - offset_ - (from_one ? 1 : 0),
                              *largest, table_rows));
    if (*least < -table_rows)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("row {} is outside of the table of positions, which has {}", *least, table_rows));
  }

  std::vector<int64_t> rows_in_order(int64_t start, int64_t positions) const {
    std::vector<int64_t> rows(static_cast<size_t>(positions));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = offset_ + start + static_cast<int64_t>(i);
    return rows;
  }

  // Of the last `positions` columns, counted over all of them.
  std::vector<int64_t> rows_of_tokens(const Tensor& tokens, int64_t start, int64_t batch, int64_t positions) const {
    expect_rank(tokens, 3, 2);
    expect_type(tokens, 3, DataType::kInt64);
    const int64_t columns = tokens.dim(1);
    if (tokens.dim(0) != batch || columns < positions)
      fail_input(3, fmt::format("({}, at least {})", batch, positions), tokens.shape().to_string());
    std::vector<int64_t> rows;
    rows.reserve(static_cast<size_t>(batch * positions));
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t* token = tokens.data<int64_t>() + b * columns;
      int64_t count = start;
      for (int64_t column = 0; column < columns; ++column) {
        count += token[column];
        if (column >= columns - positions) rows.push_back(offset_ + token[column] * count);
      }
    }
    return rows;
  }

  // Row i of the states gets rows[i % rows.size()] of the table.
  template <class T>
  void add_rows(KernelCall& call, const std::vector<int64_t>& rows, int64_t table_rows) const {
    using C = ComputeType<T>;
    const Tensor& x = call.input(0);
    const int64_t width = x.dim(x.rank() - 1), count = x.shape().count(0, x.rank() - 1);
    const T* table = nullptr;
    if (table_) {
      if (std::is_same_v<T, double>) fail_type(x.type());  // what is stored is of float
    } else {
      expect_type(call.input(1), 1, x.type());
      table = call.input(1).data<T>();
    }
    const T* from = x.data<T>();
    T* to = call.output(0, x.type(), x.shape()).template mutable_data<T>();
    const auto period = static_cast<int64_t>(rows.size());
    parallel_items(count, 2 * width, [&](int64_t begin, int64_t end) {
      std::vector<C> wide(kIsHalf<T> ? static_cast<size_t>(2 * width) : 0);
      std::vector<float> stored(table_ ? static_cast<size_t>(width) : 0);
      for (int64_t i = begin; i < end; ++i) {
        int64_t row = rows[static_cast<size_t>(i % period)];
        if (row < 0) row += table_rows;
        const T *states = from + i * width, *added = table ? table + row * width : nullptr;
        T* sum = to + i * width;
        if (table_) read_row(*table_, row, stored.data());
        if constexpr (kIsHalf<T>) {
          C* second = wide.data() + width;
          convert(states, wide.data(), static_cast<size_t>(width));
          if (added) convert(added, second, static_cast<size_t>(width));
          scale_and_add(wide.data(), scale_, added ? second : stored.data(), wide.data(), width);
          convert(wide.data(), sum, static_cast<size_t>(width));
        } else if constexpr (std::is_same_v<T, float>) {
          scale_and_add(states, scale_, added ? added : stored.data(), sum, width);
        } else {
          scale_and_add(states, C{scale_}, added, sum, width);
        }
      }
    });
  }

  float scale_;
  int64_t offset_;
  std::optional<StoredMatrix> table_;
};

}  // namespace

std::vector<OpDef> ops_in_position_embedding();
std::vector<OpDef> ops_in_position_embedding() {
  return {{"ai.attune", "PositionEmbedding", 1, prepare<PositionEmbeddingKernel>}};
}

}  // namespace attune
