// Det: determinants of square matrices, by elimination with partial pivoting, in double.
#include <cmath>
#include <vector>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

double determinant(std::vector<double>& m, size_t n) {
  double product = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r)
      if (std::abs(m[r * n + k]) > std::abs(m[pivot * n + k])) pivot = r;
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      for (size_t c = k; c < n; ++c) std::swap(m[k * n + c], m[pivot * n + c]);
      product = -product;
    }
    product *= m[k * n + k];
    for (size_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / m[k * n + k];
      for (size_t c = k; c < n; ++c) m[r * n + c] -= factor * m[k * n + c];
    }
  }
  return product;
}

class DetKernel final : public Kernel {
 public:
  explicit DetKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (in.rank() < 2 || in.shape().back() != in.dim(in.rank() - 2))
      fail_input(0, "square matrices", in.shape().to_string());
    const auto n = static_cast<size_t>(in.shape().back());
    const Tensor matrices = cast(in, DataType::kDouble, call.pool());
    Tensor result = Tensor::allocate(DataType::kDouble, in.shape().first(in.rank() - 2), call.pool());
    const double* x = matrices.data<double>();
    for (int64_t i = 0; i < result.count(); ++i, x += n * n) {
      std::vector<double> matrix(x, x + n * n);
      result.mutable_data<double>()[i] = determinant(matrix, n);
    }
    call.set_output(0, cast(result, in.type(), call.pool()));
  }
};

}  // namespace

std::vector<OpDef> ops_in_det() { return {{"", "Det", 11, prepare<DetKernel>}}; }

}  // namespace attune
