// Products of a few rows with constant weights, at the speed at which the weights are read.
//
// The weights (K, N) are stored in panels of 16 columns: panel p holds columns 16p .. 16p+15, row by row, so that
// a product reads one sequential stream. Storage may be narrower than float32; it is widened in registers.
#pragma once

#include <cstdint>
#include <span>

#include "graph/buffer.h"
#include "graph/tensor.h"

namespace attune {

enum class Activation { kNone, kRelu, kGelu, kGeluTanh, kSilu, kTanh, kSigmoid };

// y = activation(x w + bias) + residual.
struct Epilogue {
  const float* bias = nullptr;  // (N)
  Activation activation = Activation::kNone;
  const float* residual = nullptr;  // (rows, N), rows residual_stride apart; may be y itself
  int64_t residual_stride = 0;
};

class PanelWeights {
 public:
  static constexpr int64_t kPanel = 16;

  enum class Storage { kFloat32, kFloat16, kBFloat16, kInt8, kInt4 };

  PanelWeights() = default;
  // `weights` is (K, N), or (N, K) if `transposed`; float32, float16 or bfloat16, stored as it is.
  static PanelWeights pack(const Tensor& weights, bool transposed);
  // int8 (K, N) or (N, K) with one scale per column, or per group of `group` rows and column: scales is (K/group, N).
  // group 0: the whole column. int4 likewise (two to a byte, low nibble first, as ONNX stores it).
  static PanelWeights pack_quantized(const Tensor& weights, bool transposed, const Tensor& scales, int64_t group);

  bool defined() const { return static_cast<bool>(memory_); }
  int64_t inner() const { return inner_; }      // K
  int64_t columns() const { return columns_; }  // N
  Storage storage() const { return storage_; }
  size_t bytes() const;  // read by one product

  // y (rows, N) = x (rows, K) w, then the epilogue. Rows lie x_stride and y_stride floats apart. Any number of
  // rows; made for few. Uses OpenMP threads where the weights are large enough.
  void multiply(const float* x, int64_t x_stride, int64_t rows, float* y, int64_t y_stride,
                const Epilogue& epilogue = {}) const;

  // Name of the instruction set that multiply() uses.
  static const char* instruction_set();

  // --- for the kernels
  const std::byte* panel(int64_t p) const { return memory_->data() + static_cast<size_t>(p) * panel_bytes_; }
  const float* panel_scales(int64_t p) const { return scales_.data<float>() + p * groups_ * kPanel; }
  int64_t group_rows() const { return group_rows_; }
  int64_t groups() const { return groups_; }
  int64_t panels() const { return (columns_ + kPanel - 1) / kPanel; }

 private:
  int64_t inner_ = 0, columns_ = 0;
  Storage storage_ = Storage::kFloat32;
  size_t panel_bytes_ = 0;
  int64_t groups_ = 0, group_rows_ = 0;
  BufferRef memory_;
  Tensor scales_;  // (panels, groups, 16)
};

// values[i] = activation(values[i]); float accuracy.
void activate(Activation activation, float* values, int64_t count);

}  // namespace attune
