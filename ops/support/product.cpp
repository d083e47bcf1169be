#include "ops/support/product.h"

#include <fmt/format.h>

#include <exception>
#include <type_traits>
#include <vector>

#include "ops/kernel.h"
#include "ops/support/host_threads.h"
#include "ops/support/parallel_items.h"
#include "ops/support/small_product.h"

namespace attune {
namespace {

// Up to so many rows a product is one pass over b, which small_product does at memory speed.
constexpr int64_t kFewRows = 4;
// Below so many multiplications making a primitive for a new shape costs more than the product.
constexpr int64_t kFewProducts = 1 << 15;

struct Problem {
  MatrixView a, b;
  Shape c;  // sizes
  size_t batch_rank() const { return c.rank() - 2; }
  int64_t m() const { return c[c.rank() - 2]; }
  int64_t n() const { return c.back(); }
  int64_t k() const { return a.sizes.back(); }
};

// Ones in front, up to `rank`.
void pad_rank(MatrixView& v, size_t rank) {
  while (v.sizes.rank() < rank) {
    v.sizes.insert(0, 1);
    v.strides.insert(0, 0);
  }
}

void erase_batch_axis(Problem& p, size_t axis) {
  for (Shape* s : {&p.a.sizes, &p.a.strides, &p.b.sizes, &p.b.strides, &p.c}) s->erase(axis);
}

// True if axis i of v can be merged into axis i + 1.
bool mergeable(const MatrixView& v, size_t i, bool broadcast_i, bool broadcast_next) {
  if (broadcast_i != broadcast_next) return false;
  return broadcast_i || v.strides[i] == v.strides[i + 1] * v.sizes[i + 1];
}

// Fewer batch axes with the same meaning.
void merge_batch(Problem& p) {
  for (size_t i = p.batch_rank(); i-- > 0;) {
    if (p.c[i] == 1) {
      erase_batch_axis(p, i);
      continue;
    }
    if (i + 1 >= p.batch_rank()) continue;
    const auto broadcast = [&](const MatrixView& v, size_t axis) { return v.sizes[axis] == 1 && p.c[axis] != 1; };
    const bool a0 = broadcast(p.a, i), a1 = broadcast(p.a, i + 1), b0 = broadcast(p.b, i), b1 = broadcast(p.b, i + 1);
    if (!mergeable(p.a, i, a0, a1) || !mergeable(p.b, i, b0, b1)) continue;
    p.a.sizes[i + 1] *= p.a.sizes[i];
    p.b.sizes[i + 1] *= p.b.sizes[i];
    p.c[i + 1] *= p.c[i];
    erase_batch_axis(p, i);
  }
  // All rows meet the same b: one product with more rows.
  if (p.batch_rank() == 1 && p.b.sizes[0] == 1 && p.a.strides[0] == p.a.strides[1] * p.a.sizes[1]) {
    p.a.sizes[1] *= p.a.sizes[0];
    p.c[1] *= p.c[0];
    erase_batch_axis(p, 0);
  }
}

// Gives one of the matrix axes stride 1, copying if need be.
void make_dense(MatrixView& v, bool rows_only, BufferRef& copy, BufferPool* pool) {
  const size_t r = v.sizes.rank();
  const int64_t rows = v.sizes[r - 2], columns = v.sizes[r - 1];
  // A stride of an axis of size 1 says nothing.
  if (columns == 1 && v.strides[r - 2] != 1) v.strides[r - 1] = 1;
  if (rows == 1) v.strides[r - 2] = std::max<int64_t>(v.strides[r - 2], columns);
  const bool by_rows = v.strides[r - 1] == 1 && v.strides[r - 2] >= columns;
  const bool by_columns = !rows_only && v.strides[r - 2] == 1 && v.strides[r - 1] >= rows;
  if (by_rows || by_columns) return;
  const Shape dense = onednn::dense_strides(v.sizes);
  const auto bytes = static_cast<size_t>(v.sizes.count()) * sizeof(float);
  copy = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  auto* to = reinterpret_cast<float*>(copy->data());
  Shape index;
  index.resize(r, 0);
  for (int64_t done = 0; done < v.sizes.count(); done += columns) {
    const float* from = v.data;
    for (size_t i = 0; i + 1 < r; ++i) from += index[i] * v.strides[i];
    for (int64_t c = 0; c < columns; ++c) to[done + c] = from[c * v.strides[r - 1]];
    for (size_t i = r - 1; i-- > 0;) {
      if (++index[i] < v.sizes[i]) break;
      index[i] = 0;
    }
  }
  v.data = to;
  v.strides = dense;
}

int64_t batch_offset(const MatrixView& v, const Shape& c, int64_t batch) {
  int64_t offset = 0;
  for (size_t i = c.rank() - 2; i-- > 0;) {
    const int64_t index = batch % c[i];
    batch /= c[i];
    if (v.sizes[i] != 1) offset += index * v.strides[i];
  }
  return offset;
}

void run_small(const Problem& p, float* c) {
  const size_t r = p.c.rank();
  const int64_t batches = p.c.count(0, r - 2), m = p.m(), n = p.n(), k = p.k();
  const auto one = [&](int64_t batch, int64_t begin, int64_t end) {
    const SmallProduct s{m,
                         n,
                         k,
                         p.a.data + batch_offset(p.a, p.c, batch),
                         p.a.strides[r - 2],
                         p.b.data + batch_offset(p.b, p.c, batch),
                         p.b.strides[r - 2],
                         p.b.strides[r - 1],
                         c + batch * m * n,
                         n};
    small_product(s, begin, end);
  };
  if (batches > 1) {
    parallel_items(batches, m * n * k / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i, 0, n);
    });
  } else {
    constexpr int64_t kStep = 64;
    parallel_items((n + kStep - 1) / kStep, m * kStep * k / 4,
                   [&](int64_t begin, int64_t end) { one(0, begin * kStep, std::min(n, end * kStep)); });
  }
}

// Strides of sizes of 1 as oneDNN wants them: of a dense tensor.
onednn::Operand operand(const MatrixView& v) {
  onednn::Operand o{DataType::kFloat, v.sizes, v.strides};
  for (size_t i = v.sizes.rank() - 2; i-- > 0;)
    if (v.sizes[i] == 1) o.strides[i] = std::max<int64_t>(1, o.strides[i + 1] * o.sizes[i + 1]);
  return o;
}

// A part of a product: of its rows or its columns, which lie `row_step` apart in c.
struct Cut {
  Problem p;
  float* c;
};

onednn::MatMulSpec spec_of(const Problem& p, int64_t row_step) {
  Shape strides = onednn::dense_strides(p.c);
  strides[p.c.rank() - 2] = row_step;
  return {operand(p.a), operand(p.b), {DataType::kFloat, p.c, strides}};
}

// A product without batches in about as many cuts as there are threads: of its rows, or where they are few its columns.
std::vector<Cut> cut(const Problem& p, float* c) {
  constexpr int64_t kLeast = 16;  // rows or columns of a cut
  const int64_t parts = parallel_width();
  const bool by_rows = p.m() >= kLeast * parts;
  const int64_t all = by_rows ? p.m() : p.n();
  const int64_t each = ((all + parts - 1) / parts + kLeast - 1) / kLeast * kLeast;
  std::vector<Cut> cuts;
  for (int64_t begin = 0; begin < all; begin += each) {
    Cut& part = cuts.emplace_back(Cut{p, c + begin * (by_rows ? p.n() : 1)});
    const size_t axis = by_rows ? 0 : 1;
    MatrixView& view = by_rows ? part.p.a : part.p.b;
    view.data += begin * view.strides[axis];
    view.sizes[axis] = part.p.c[axis] = std::min(each, all - begin);
  }
  return cuts;
}

// By oneDNN, on a host's threads if this is one. False if oneDNN only has its reference implementation.
bool run_primitives(const Problem& p, float* c, onednn::MatMulCache& cache, BufferPool* pool) {
  const bool in_cuts = on_host_threads() && parallel_width() > 1 && p.batch_rank() == 0;
  const std::vector<Cut> cuts = in_cuts ? cut(p, c) : std::vector<Cut>{{p, c}};
  std::vector<std::shared_ptr<const onednn::MatMul>> primitives;
  for (const Cut& part : cuts) {
    primitives.push_back(onednn::find_matmul(cache, spec_of(part.p, p.n())));
    if (!primitives.back()) return false;
  }
  std::vector<std::exception_ptr> failures(cuts.size());
  parallel_parts(static_cast<int>(cuts.size()), [&](int part) {
    const auto i = static_cast<size_t>(part);
    try {
      primitives[i]->run(cuts[i].p.a.data, cuts[i].p.b.data, cuts[i].c, pool);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return true;
}

}  // namespace

MatrixView MatrixView::of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.shape(),
          tensor.contiguous() ? onednn::dense_strides(tensor.shape()) : tensor.strides()};
}

MatrixView MatrixView::transposed() const {
  MatrixView v = *this;
  const size_t r = sizes.rank();
  std::swap(v.sizes[r - 1], v.sizes[r - 2]);
  std::swap(v.strides[r - 1], v.strides[r - 2]);
  return v;
}

Shape broadcast_batch(const Shape& a, const Shape& b) {
  return broadcast(a.first(a.rank() - 2), b.first(b.rank() - 2));
}

void FloatProduct::run(MatrixView a, MatrixView b, float* c, BufferPool* pool) const {
  if (a.sizes.back() != b.sizes[b.sizes.rank() - 2])
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("inner sizes differ: {} times {}", a.sizes.to_string(), b.sizes.to_string()));
  Problem p{std::move(a), std::move(b), {}};
  p.c = broadcast_batch(p.a.sizes, p.b.sizes);
  p.c.push_back(p.a.sizes[p.a.sizes.rank() - 2]);
  p.c.push_back(p.b.sizes.back());
  if (p.c.count() == 0) return;
  if (p.k() == 0) {
    std::fill_n(c, p.c.count(), 0.0F);
    return;
  }
  pad_rank(p.a, p.c.rank());
  pad_rank(p.b, p.c.rank());
  merge_batch(p);
  const bool small = p.m() <= kFewRows || p.m() * p.n() * p.k() <= kFewProducts;
  BufferRef a_copy, b_copy;
  make_dense(p.a, small, a_copy, pool);
  make_dense(p.b, false, b_copy, pool);
  if (!small) {
    if (run_primitives(p, c, primitives_, pool)) return;
    make_dense(p.a, true, a_copy, pool);
  }
  run_small(p, c);
}

std::string FloatProduct::implementation() const {
  const auto primitive = primitives_.newest();
  return primitive ? primitive->implementation() : "small_product";
}

namespace {

template <class T>
void multiply_plain(const Problem& p, const T* a, const T* b, T* c) {
  // Integers wrap, as unsigned ones do.
  using Work = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  const int64_t m = p.m(), n = p.n(), k = p.k();
  parallel_items(p.c.count(0, p.c.rank() - 1), n * k, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = a + batch_offset(p.a, p.c, row / m) + row % m * k;
      const T* w = b + batch_offset(p.b, p.c, row / m);
      T* y = c + row * n;
      std::fill_n(y, n, T{0});
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j)
          y[j] = static_cast<T>(static_cast<Work>(y[j]) + static_cast<Work>(x[i]) * static_cast<Work>(w[i * n + j]));
    }
  });
}

}  // namespace

void multiply_plain(const Tensor& a, const Tensor& b, Tensor& c) {
  Problem p{{nullptr, a.shape(), onednn::dense_strides(a.shape())},
            {nullptr, b.shape(), onednn::dense_strides(b.shape())},
            c.shape()};
  pad_rank(p.a, p.c.rank());
  pad_rank(p.b, p.c.rank());
  if (p.c.count() == 0) return;
  dispatch<double, int32_t, int64_t, uint32_t, uint64_t>(
      c.type(), [&]<class T>() { multiply_plain<T>(p, a.data<T>(), b.data<T>(), c.mutable_data<T>()); });
}

}  // namespace attune
