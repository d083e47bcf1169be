// ONNX Runtime's Inverse: inverses of square matrices (.., N, N), by Gauss-Jordan elimination with partial pivoting in
// double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op.h"
#include "ops/support/float_tensor.h"

namespace attune {
namespace {

// Row `a` of `matrix` (rows of `width`) minus `factor` times row `b`.
void subtract_row(std::vector<double>& matrix, size_t width, size_t a, size_t b, double factor) {
  for (size_t c = 0; c < width; ++c) matrix[a * width + c] -= factor * matrix[b * width + c];
}

void invert(const float* from, size_t n, float* to) {
  const size_t width = 2 * n;  // the matrix, and the identity that becomes the inverse
  std::vector<double> m(n * width, 0.0);
  for (size_t r = 0; r < n; ++r) {
    std::copy_n(from + r * n, n, m.begin() + static_cast<std::ptrdiff_t>(r * width));
    m[r * width + n + r] = 1;
  }
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r)
      if (std::abs(m[r * width + k]) > std::abs(m[pivot * width + k])) pivot = r;
    const double value = m[pivot * width + k];
    if (value == 0) throw Error(Error::Kind::kInvalidArgument, "input 0: a singular matrix has no inverse");
    for (size_t c = 0; c < width; ++c) {
      std::swap(m[pivot * width + c], m[k * width + c]);
      m[k * width + c] /= value;
    }
    for (size_t r = 0; r < n; ++r)
      if (r != k) subtract_row(m, width, r, k, m[r * width + k]);
  }
  for (size_t r = 0; r < n; ++r)
    for (size_t c = 0; c < n; ++c) to[r * n + c] = static_cast<float>(m[r * width + n + c]);
}

class Inverse : public Kernel {
 public:
  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    const size_t rank = x.rank();
    if (rank < 2 || x.dim(rank - 1) != x.dim(rank - 2))
      fail_input(0, "square matrices (.., N, N)", x.shape().to_string());
    const FloatView<float> in(x, call.pool());
    FloatResult<float> y(call, 0, x.type(), x.shape());
    const int64_t n = x.dim(rank - 1), size = n * n;
    for (int64_t i = 0; size > 0 && i < x.count() / size; ++i)
      invert(in.data() + i * size, static_cast<size_t>(n), y.data() + i * size);
    y.store(call);
  }
};

std::unique_ptr<Kernel> make_inverse(const KernelContext&) { return std::make_unique<Inverse>(); }

}  // namespace

std::vector<OpDef> ops_in_inverse();
std::vector<OpDef> ops_in_inverse() { return {{"com.microsoft", "Inverse", 1, make_inverse}}; }

}  // namespace attune
