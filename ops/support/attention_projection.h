// The projections of queries, keys and values inside an attention.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "ops/kernel.h"
#include "ops/support/linear.h"
#include "ops/support/product.h"

namespace attune {

// Projections of query, key and value of an ai.attune::Attention. Constant weights are packed when it is made. Where
// all three, or key and value, come from one input by constant weights, one product serves them.
class AttentionProjections {
 public:
  explicit AttentionProjections(const KernelContext& context);

  // Query, key and value as the attention takes them: the inputs of `call` where they have no projection. A key or
  // value that is left out is projected from what it stands for. Throws Error(kInvalidArgument) that names the operand
  // where types or shapes don't fit.
  std::array<Tensor, 3> run(KernelCall& call) const;

  // False for weights that were taken in.
  bool uses_input(size_t input) const;
  std::string implementation() const;  // of the products; empty for none

 private:
  bool is_joint(size_t operand) const { return joint_ && operand >= first_joint_; }
  void take_bias(const Tensor* bias, size_t operand, int64_t columns);
  void run_joint(KernelCall& call, std::array<Tensor, 3>& operands) const;
  Tensor project(const Tensor& x, size_t operand, KernelCall& call) const;

  std::array<std::unique_ptr<LinearWeights>, 3> weights_;  // null: no weights, or none that are constant
  std::array<DataType, 3> types_{};                        // of the weights, as the operands see them
  std::unique_ptr<LinearWeights> joint_;                   // of operand first_joint_ and all after it, side by side
  size_t first_joint_ = 0;
  std::vector<float> joint_bias_;
  std::array<int64_t, 3> joint_columns_{};
  FloatProduct product_;  // for weights that aren't constant
};

// `tensor`, or a copy of it if its rows aren't contiguous.
Tensor with_contiguous_rows(const Tensor& tensor, BufferPool* pool);

}  // namespace attune
