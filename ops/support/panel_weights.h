// Products of a few rows with constant weights, at the speed at which the weights are read.
//
// The weights (K, N) are stored in panels of 16 columns: panel p holds columns 16p .. 16p+15, row by row, so that
// a product reads one sequential stream. Storage may be narrower than float32; it is widened in registers, or, with
// rounded activations, multiplied as it is. Panels of integers hold a few rows together, as the instructions that add
// neighbouring products want them: see row_step().
#pragma once

#include <algorithm>
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
  const float* residual = nullptr;  // (rows, N), rows residual_stride apart; may be y itself, with y's stride
  int64_t residual_stride = 0;
};

class PanelWeights {
 public:
  static constexpr int64_t kPanel = 16;

  enum class Storage { kFloat32, kFloat16, kBFloat16, kInt8, kInt4, kInt16 };

  PanelWeights() = default;
  // `weights` is (K, N), or (N, K) if `transposed`; float32, float16 or bfloat16, stored as it is.
  static PanelWeights pack(const Tensor& weights, bool transposed);
  // int8 (K, N) or (N, K) with one scale per column, or per group of `group` rows and column: scales is (K/group, N).
  // group 0: the whole column. int4 likewise (two to a byte, low nibble first, as ONNX stores it).
  // rounded_activations: multiply() rounds x to 8 bits, each row in blocks of activation_block() by their largest
  // value.
  static PanelWeights pack_quantized(const Tensor& weights, bool transposed, const Tensor& scales, int64_t group,
                                     bool rounded_activations = false);
  // float16 or bfloat16 (K, N) or (N, K), rounded to integers of 16 bits with one scale per column, a power of two, and
  // multiply() rounds x so, too, in blocks of activation_block(). Scales are the least with which the values of a block
  // are at most kInt16Most and the root of the sum of their squares at most kInt16Norm: the products of two such blocks
  // add up to less than 2^31.
  static PanelWeights pack_int16(const Tensor& weights, bool transposed);
  // (K, N1 + N2 ...) of weights of equal storage, groups and K whose columns but for the last fill their panels;
  // undefined if they don't fit together so.
  static PanelWeights side_by_side(std::span<const PanelWeights* const> parts);

  // Columns [first, first + count) over the same memory; `first` begins a panel.
  PanelWeights range(int64_t first, int64_t count) const;

  bool defined() const { return static_cast<bool>(memory_); }
  int64_t inner() const { return inner_; }      // K
  int64_t columns() const { return columns_; }  // N
  Storage storage() const { return storage_; }
  bool rounded_activations() const { return rounded_activations_; }  // multiply() rounds x, with kInt16 to 16 bits
  size_t bytes() const;                                              // read by one product

  // y (rows, N) = x (rows, K) w, then the epilogue. Rows lie x_stride and y_stride floats apart. Any number of
  // rows; made for few. A row's result doesn't depend on the others. Uses OpenMP threads where the weights are large
  // enough; scratch memory is from `pool`.
  void multiply(const float* x, int64_t x_stride, int64_t rows, float* y, int64_t y_stride,
                const Epilogue& epilogue = {}, BufferPool* pool = nullptr) const;

  // y = activation'(activation(x first + bias) second + bias') + residual', both epilogues as of multiply(), `hidden`
  // without a residual. If both have rounded_activations() and there are many rows, what lies between is rounded as
  // soon as it is known and never stored as floats; the results are those of two products.
  static void multiply_twice(const PanelWeights& first, const Epilogue& hidden, const PanelWeights& second,
                             const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool);

  // What a cache file keeps, to be read by the same build on the same kind of CPU (see runtime/panel_cache.h).
  struct Header {
    int64_t inner, columns, group_rows, groups;
    int64_t storage, panel_bytes, rounded_activations;
  };
  Header header() const;
  std::span<const std::byte> memory() const;  // the panels
  std::span<const std::byte> scales() const;  // empty if they have none
  // Throws Error(kInvalidArgument) if header and sizes don't fit together.
  static PanelWeights from_parts(const Header& header, BufferRef memory, BufferRef scales);

  // Name of the instruction set that multiply() uses.
  static const char* instruction_set();

  // --- for the kernels
  const std::byte* panel(int64_t p) const { return memory_->data() + static_cast<size_t>(p) * panel_bytes_; }
  const float* panel_scales(int64_t p) const { return scales_.data<float>() + p * groups_ * kPanel; }
  int64_t group_rows() const { return group_rows_; }
  int64_t groups() const { return groups_; }
  // Rows that are stored together: 1; of int16 2 and of int8 4, a column's one after the other; of int4 8, the first
  // four in the low nibbles of a column's four bytes, the others in the high ones. The rows of a group are filled up
  // with zeros to a multiple of it. int8 is stored with 128 added, int4 with 8.
  int64_t row_step() const {
    return storage_ == Storage::kInt8 ? 4 : storage_ == Storage::kInt4 ? 8 : storage_ == Storage::kInt16 ? 2 : 1;
  }
  // Of a value of rounded x.
  int64_t rounded_bytes() const { return storage_ == Storage::kInt16 ? 2 : 1; }
  int64_t padded_group() const { return (group_rows_ + row_step() - 1) / row_step() * row_step(); }
  int64_t padded_inner() const;
  // Rows of x that share a scale when it is rounded: a group of rows that have their own scales, or 128.
  static constexpr int64_t kMostActivationBlock = 128;
  // Rounding adds at most half the root of 128 to the norm.
  static constexpr float kInt16Most = 32767, kInt16Norm = 46330;
  int64_t activation_block() const {
    return groups_ > 1 ? group_rows_ : std::min<int64_t>(group_rows_, kMostActivationBlock);
  }
  int64_t panels() const { return (columns_ + kPanel - 1) / kPanel; }

 private:
  int64_t inner_ = 0, columns_ = 0;
  Storage storage_ = Storage::kFloat32;
  size_t panel_bytes_ = 0;
  int64_t groups_ = 0, group_rows_ = 0;
  bool rounded_activations_ = false;
  BufferRef memory_;
  Tensor scales_;  // (panels, groups, 16)
};

// values[i] = activation(values[i]); float accuracy.
void activate(Activation activation, float* values, int64_t count);

}  // namespace attune
