// Einsum: operands are contracted from left to right; each contraction is a batched matrix product.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/op.h"
#include "ops/support/einsum_equation.h"
#include "ops/support/float_tensor.h"
#include "ops/support/prepare.h"
#include "ops/support/product.h"
#include "ops/support/window.h"

namespace attune {
namespace {

using Labels = std::vector<int>;

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor with a label for each axis, no label twice.
struct Labelled {
  Tensor tensor;  // holds the memory
  Labels labels;
  Shape sizes, strides;

  size_t axis(int label) const {
    return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  int64_t size(int label) const { return contains(labels, label) ? sizes[axis(label)] : 1; }
  int64_t stride(int label) const { return contains(labels, label) && size(label) != 1 ? strides[axis(label)] : 0; }
};

Labelled contiguous(Tensor tensor, Labels labels) {
  const Shape sizes = tensor.shape();
  return {std::move(tensor), std::move(labels), sizes, onednn::dense_strides(sizes)};
}

// A label twice in one operand means its diagonal.
Labelled labelled(const Tensor& tensor, const Labels& labels) {
  const Labelled all = contiguous(tensor, labels);
  Labelled t{tensor, {}, {}, {}};
  for (size_t i = 0; i < labels.size(); ++i) {
    if (contains(t.labels, labels[i])) {
      const size_t axis = t.axis(labels[i]);
      if (t.sizes[axis] != all.sizes[i])
        throw Error(Error::Kind::kInvalidArgument, fmt::format("a diagonal of {} by {}", t.sizes[axis], all.sizes[i]));
      t.strides[axis] += all.strides[i];
    } else {
      t.labels.push_back(labels[i]);
      t.sizes.push_back(all.sizes[i]);
      t.strides.push_back(all.strides[i]);
    }
  }
  return t;
}

// A contiguous copy with axes `labels` (of `sizes`, to which axes of size 1 or left out are spread).
Tensor materialize(const Labelled& t, const Labels& labels, const Shape& sizes, BufferPool* pool) {
  Shape strides;
  for (const int label : labels) strides.push_back(t.stride(label));
  bool dense = sizes.count() == t.tensor.count();
  const Shape wanted = onednn::dense_strides(sizes);
  for (size_t i = 0; i < sizes.rank(); ++i) dense = dense && (sizes[i] == 1 || strides[i] == wanted[i]);
  if (dense) return t.tensor.reshaped(sizes);
  Tensor copy = Tensor::allocate(t.tensor.type(), sizes, pool);
  const size_t width = static_cast<size_t>(element_bits(copy.type())) / 8;
  const std::byte* from = t.tensor.raw();
  std::byte* to = copy.mutable_raw();
  for_each_position(sizes, [&](int64_t o, const Shape& at) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.rank(); ++i) offset += at[i] * strides[i];
    std::memcpy(to + static_cast<size_t>(o) * width, from + static_cast<size_t>(offset) * width, width);
  });
  return copy;
}

Shape sizes_of(const Labelled& t, const Labels& labels) {
  Shape s;
  for (const int label : labels) s.push_back(t.size(label));
  return s;
}

// The sum over the axes that are not in `kept`.
Labelled sum_others(const Labelled& t, const Labels& kept, BufferPool* pool) {
  Labels first, rest;
  for (const int label : t.labels) (contains(kept, label) ? first : rest).push_back(label);
  if (rest.empty()) return t;
  Labels order = first;
  order.insert(order.end(), rest.begin(), rest.end());
  const Tensor ordered = materialize(t, order, sizes_of(t, order), pool);
  const Shape sizes = sizes_of(t, first);
  const int64_t n = sizes_of(t, rest).count();
  Tensor sums = Tensor::allocate(ordered.type(), sizes, pool);
  dispatch<float, double, int32_t, int64_t>(ordered.type(), [&]<class T>() {
    const T* from = ordered.data<T>();
    for (int64_t i = 0; i < sizes.count(); ++i) {
      T sum = 0;
      for (int64_t k = 0; k < n; ++k) sum = static_cast<T>(sum + from[i * n + k]);
      sums.mutable_data<T>()[i] = sum;
    }
  });
  return contiguous(sums, first);
}

// Of a label that both have: 1 is spread over the other's size (which may be 0).
int64_t common_size(const Labelled& a, const Labelled& b, int label) {
  return a.size(label) == 1 ? b.size(label) : a.size(label);
}

class EinsumKernel : public Kernel {
 public:
  explicit EinsumKernel(const KernelContext& context) : equation_(context.node().attr_string("equation", "")) {}

  void run(KernelCall& call) const override {
    std::vector<size_t> ranks;
    for (size_t i = 0; i < call.input_count(); ++i) ranks.push_back(call.input(i).rank());
    const EinsumEquation equation = EinsumEquation::resolve(equation_, ranks);
    const DataType type = call.input(0).type();
    Labelled result = operand(call, 0, equation);
    for (size_t i = 1; i < ranks.size(); ++i) {
      expect_type(call.input(i), i, type);
      Labels later = equation.result;
      for (size_t j = i + 1; j < ranks.size(); ++j)
        later.insert(later.end(), equation.operands[j].begin(), equation.operands[j].end());
      result = contract(result, operand(call, i, equation), later, call.pool());
    }
    result = sum_others(result, equation.result, call.pool());
    const Tensor ordered = materialize(result, equation.result, sizes_of(result, equation.result), call.pool());
    if (ordered.type() == type) return call.set_output(0, ordered);
    Tensor& y = call.output(0, type, ordered.shape());
    narrow(type, ordered.data<float>(), y.mutable_raw(), y.count());
  }

  std::string implementation() const override { return product_.implementation(); }

 private:
  // 16-bit operands as float.
  static Labelled operand(KernelCall& call, size_t i, const EinsumEquation& equation) {
    const Tensor& t = call.input(i);
    if (!is_half(t.type())) return labelled(t, equation.operands[i]);
    Tensor wide = Tensor::allocate(DataType::kFloat, t.shape(), call.pool());
    widen(t.type(), t.raw(), wide.mutable_data<float>(), t.count());
    return labelled(wide, equation.operands[i]);
  }

  // The product of a and b, summed over what neither `later` terms nor the result need.
  Labelled contract(const Labelled& left, const Labelled& right, const Labels& later, BufferPool* pool) const {
    Labels keep_left = later, keep_right = later;
    keep_left.insert(keep_left.end(), right.labels.begin(), right.labels.end());
    keep_right.insert(keep_right.end(), left.labels.begin(), left.labels.end());
    const Labelled a = sum_others(left, keep_left, pool), b = sum_others(right, keep_right, pool);
    Labels batch, rows, columns, inner;
    for (const int label : a.labels)
      (!contains(b.labels, label) ? rows : contains(later, label) ? batch : inner).push_back(label);
    for (const int label : b.labels)
      if (!contains(a.labels, label)) columns.push_back(label);
    // In the order of what comes later, so that the result needs no transposition.
    const auto by_later = [&](int x, int y) {
      return std::find(later.begin(), later.end(), x) < std::find(later.begin(), later.end(), y);
    };
    for (Labels* l : {&batch, &rows, &columns}) std::stable_sort(l->begin(), l->end(), by_later);
    for (const Labels* l : {&batch, &inner})
      for (const int label : *l)
        if (a.size(label) != b.size(label) && a.size(label) != 1 && b.size(label) != 1)
          throw Error(Error::Kind::kInvalidArgument, fmt::format("equation '{}': sizes {} and {} of one label",
                                                                 equation_, a.size(label), b.size(label)));

    Shape sizes;
    Labels labels;
    for (const int label : batch) sizes.push_back(common_size(a, b, label));
    for (const int label : rows) sizes.push_back(a.size(label));
    for (const int label : columns) sizes.push_back(b.size(label));
    for (const Labels* l : {&batch, &rows, &columns}) labels.insert(labels.end(), l->begin(), l->end());
    Shape inner_sizes;
    for (const int label : inner) inner_sizes.push_back(common_size(a, b, label));

    Tensor y = Tensor::allocate(a.tensor.type(), sizes, pool);
    if (y.type() == DataType::kFloat) {
      Tensor a_copy, b_copy;
      const MatrixView x = matrix(a, {batch, rows, inner}, sizes_of(a, rows), inner_sizes, a_copy, pool);
      const MatrixView w = matrix(b, {batch, inner, columns}, inner_sizes, sizes_of(b, columns), b_copy, pool);
      product_.run(x, w, y.mutable_data<float>(), pool);
    } else {
      Shape shape = sizes.first(batch.size());
      shape.push_back(sizes_of(a, rows).count());
      shape.push_back(sizes_of(b, columns).count());
      Tensor flat = y.reshaped(shape);
      multiply_plain(dense_matrix(a, {batch, rows, inner}, sizes_of(a, rows), inner_sizes, pool),
                     dense_matrix(b, {batch, inner, columns}, inner_sizes, sizes_of(b, columns), pool), flat);
    }
    return contiguous(y, labels);
  }

  // Labels of the batch axes, of the rows and of the columns.
  struct MatrixLabels {
    const Labels &batch, &rows, &columns;
  };

  // A contiguous tensor (batch..., rows, columns).
  static Tensor dense_matrix(const Labelled& t, const MatrixLabels& m, const Shape& rows, const Shape& columns,
                             BufferPool* pool) {
    Labels order = m.batch;
    order.insert(order.end(), m.rows.begin(), m.rows.end());
    order.insert(order.end(), m.columns.begin(), m.columns.end());
    Shape sizes = sizes_of(t, m.batch), shape = sizes;
    for (const Shape* s : {&rows, &columns})
      for (const int64_t size : *s) sizes.push_back(size);
    shape.push_back(rows.count());
    shape.push_back(columns.count());
    return materialize(t, order, sizes, pool).reshaped(shape);
  }

  // The same as a view, without a copy where rows and columns are one axis each.
  static MatrixView matrix(const Labelled& t, const MatrixLabels& m, const Shape& rows, const Shape& columns,
                           Tensor& copy, BufferPool* pool) {
    const bool spread = (m.rows.size() == 1 && t.size(m.rows[0]) != rows[0]) ||
                        (m.columns.size() == 1 && t.size(m.columns[0]) != columns[0]);
    if (m.rows.size() > 1 || m.columns.size() > 1 || spread) {
      copy = dense_matrix(t, m, rows, columns, pool);
      return MatrixView::of(copy);
    }
    MatrixView v{t.tensor.data<float>(), sizes_of(t, m.batch), {}};
    for (const int label : m.batch) v.strides.push_back(t.stride(label));
    const auto push = [&](const Labels& labels) {
      v.sizes.push_back(labels.empty() ? 1 : t.size(labels[0]));
      v.strides.push_back(labels.empty() ? 0 : t.stride(labels[0]));
    };
    push(m.rows);
    push(m.columns);
    return v;
  }

  std::string equation_;
  FloatProduct product_;
};

}  // namespace

std::vector<OpDef> ops_in_einsum();
std::vector<OpDef> ops_in_einsum() { return {{"", "Einsum", 12, prepare<EinsumKernel>}}; }

}  // namespace attune
