#include "ops/support/attention_projection.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/support/attention_inputs.h"
#include "ops/support/attention_rows.h"
#include "ops/support/float_tensor.h"

namespace attune {
namespace {

constexpr std::array<std::string_view, 3> kNames{"query", "key", "value"};

size_t weight_input(size_t operand) { return kAttentionQueryWeight + operand; }
size_t bias_input(size_t operand) { return kAttentionQueryBias + operand; }

[[noreturn]] void fail(std::string_view what, std::string_view expected, const Tensor& got) {
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("{}: expected {}, got {} {}", what, expected, name(got.type()), got.shape().to_string()));
}

// The input that an operand is projected from: key stands for query, value for key, where they are left out.
template <class Has>
size_t source_of(size_t operand, Has&& has) {
  while (operand > 0 && !has(operand)) --operand;
  return operand;
}

void project_double(const Tensor& x, const Tensor* w, const Tensor* b, Tensor& out) {
  const int64_t rows = x.dim(0) * x.dim(1), inner = x.dim(2), columns = out.dim(2);
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.data<double>() + r * inner;
    double* to = out.mutable_data<double>() + r * columns;
    if (b) {
      std::copy_n(b->data<double>(), columns, to);
    } else {
      std::fill_n(to, columns, 0.0);
    }
    if (w) {
      add_weighted(RowBlock<double>{w->data<double>(), columns, inner, columns}, from, to);
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] += from[j];
    }
  }
}

// Runs `product(x, y)` on float memory of operands of any narrow type.
template <class Product>
void with_floats(const Tensor& x, Tensor& out, BufferPool* pool, Product&& product) {
  const FloatView<float> in(x, pool);
  if (out.type() == DataType::kFloat) {
    product(in.data(), out.mutable_data<float>());
    return;
  }
  Tensor wide = Tensor::allocate(DataType::kFloat, out.shape(), pool);
  product(in.data(), wide.mutable_data<float>());
  narrow(out.type(), wide.data<float>(), out.mutable_raw(), out.count());
}

}  // namespace

AttentionProjections::AttentionProjections(const KernelContext& context) {
  const Node& node = context.node();
  std::array<std::optional<ConstantWeights>, 3> found;
  const auto source = [&](size_t i) {
    return node.input(source_of(i, [&](size_t k) { return context.has_input(k); }));
  };
  for (size_t i = 0; i < 3; ++i) {
    found[i] = constant_weights(context, weight_input(i), false);
    if (found[i]) types_[i] = found[i]->type;
  }
  // Operands from `first` on are one product.
  const auto joins = [&](size_t first) {
    std::vector<ConstantWeights> together;
    for (size_t i = first; i < 3; ++i) {
      if (!found[i] || types_[i] != types_[first] || source(i) != source(first) ||
          (context.has_input(bias_input(i)) && !context.constant(bias_input(i))))
        return false;
      together.push_back(*found[i]);
    }
    if (!context.options().pack_weights || together[0].inner() == 0 || !fit_together(together)) return false;
    joint_ = std::make_unique<LinearWeights>(together, context.options());
    for (size_t i = first; i < 3; ++i) take_bias(context.constant(bias_input(i)), i, together[i - first].columns());
    first_joint_ = first;
    return true;
  };
  if (!joins(0)) joins(1);
  for (size_t i = 0; i < 3; ++i)
    if (found[i] && !is_joint(i))
      weights_[i] = std::make_unique<LinearWeights>(std::vector{*found[i]}, context.options());
}

// Appends the bias of an operand to joint_bias_; zeros for null.
void AttentionProjections::take_bias(const Tensor* bias, size_t operand, int64_t columns) {
  joint_columns_[operand] = columns;
  const size_t begin = joint_bias_.size();
  joint_bias_.resize(begin + static_cast<size_t>(columns));
  if (!bias) return;
  if (bias->rank() != 1 || bias->dim(0) != columns || bias->type() != types_[operand])
    fail(fmt::format("b_{}", kNames[operand]), fmt::format("{} ({})", name(types_[operand]), columns), *bias);
  const FloatView<float> values(*bias, nullptr);
  std::copy_n(values.data(), columns, joint_bias_.data() + begin);
}

bool AttentionProjections::uses_input(size_t input) const {
  if (input < kAttentionQueryWeight || input > kAttentionValueWeight) return true;
  const size_t operand = input - kAttentionQueryWeight;
  return !is_joint(operand) && !weights_[operand];
}

std::array<Tensor, 3> AttentionProjections::run(KernelCall& call) const {
  std::array<Tensor, 3> operands;
  for (size_t i = 0; i < 3 && !is_joint(i); ++i) {
    const Tensor& x = call.input(source_of(i, [&](size_t k) { return call.has(k); }));
    const bool projects = weights_[i] || call.has(weight_input(i)) || call.has(bias_input(i));
    operands[i] = projects ? project(x, i, call) : with_contiguous_rows(x, call.pool());
  }
  if (joint_) run_joint(call, operands);
  return operands;
}

void AttentionProjections::run_joint(KernelCall& call, std::array<Tensor, 3>& operands) const {
  const size_t source = source_of(first_joint_, [&](size_t k) { return call.has(k); });
  const Tensor x = call.input(source).to_contiguous(call.pool());
  const int64_t columns = joint_->columns();
  const DataType type = types_[first_joint_];
  if (x.rank() != 3 || x.dim(2) != joint_->inner() || x.type() != type)
    fail(kNames[source], fmt::format("{} (B,T,{})", name(type), joint_->inner()), x);
  Tensor out = Tensor::allocate(type, {x.dim(0), x.dim(1), columns}, call.pool());
  with_floats(x, out, call.pool(), [&](const float* from, float* to) {
    joint_->run(from, x.dim(0) * x.dim(1), to, {.bias = joint_bias_.data()}, call.pool());
  });
  std::byte* data = out.mutable_raw();
  for (size_t i = first_joint_; i < 3; ++i) {
    operands[i] = Tensor::strided_view(type, {x.dim(0), x.dim(1), joint_columns_[i]}, {x.dim(1) * columns, columns, 1},
                                       out.buffer(), data);
    data += storage_bytes(type, static_cast<size_t>(joint_columns_[i]));
  }
}

Tensor AttentionProjections::project(const Tensor& input, size_t operand, KernelCall& call) const {
  if (input.rank() != 3) fail(kNames[operand], "three dimensions beside a projection", input);
  BufferPool* pool = call.pool();
  const Tensor x = input.to_contiguous(pool);
  const LinearWeights* packed = weights_[operand].get();
  const Tensor* w = packed ? nullptr : call.optional_input(weight_input(operand));
  const Tensor* b = call.optional_input(bias_input(operand));
  const int64_t rows = x.dim(0) * x.dim(1), inner = x.dim(2);
  if (w && (w->rank() != 2 || w->dim(0) != inner || w->type() != x.type()))
    fail(fmt::format("w_{}", kNames[operand]), fmt::format("{} ({}, columns)", name(x.type()), inner), *w);
  if (packed && (packed->inner() != inner || types_[operand] != x.type()))
    fail(kNames[operand], fmt::format("{} (B,T,{})", name(types_[operand]), packed->inner()), x);
  const int64_t columns = packed ? packed->columns() : w ? w->dim(1) : inner;
  if (b && (b->rank() != 1 || b->dim(0) != columns || b->type() != x.type()))
    fail(fmt::format("b_{}", kNames[operand]), fmt::format("{} ({})", name(x.type()), columns), *b);
  Tensor out = Tensor::allocate(x.type(), {x.dim(0), x.dim(1), columns}, pool);
  if (x.type() == DataType::kDouble) {
    project_double(x, w, b, out);
    return out;
  }
  const FloatView<float> bias(b, pool);
  const Epilogue epilogue{.bias = bias.data()};
  with_floats(x, out, pool, [&](const float* from, float* to) {
    if (packed) {
      packed->run(from, rows, to, epilogue, pool);
      return;
    }
    if (w) {
      const FloatView<float> matrix(*w, pool);
      product_.run({from, {rows, inner}, {inner, 1}}, {matrix.data(), w->shape(), {columns, 1}}, to, pool);
    } else {
      std::copy_n(from, rows * inner, to);
    }
    apply_epilogue(to, rows, columns, epilogue);
  });
  return out;
}

std::string AttentionProjections::implementation() const {
  if (joint_) return joint_->implementation();
  for (const auto& w : weights_)
    if (w) return w->implementation();
  return {};
}

Tensor with_contiguous_rows(const Tensor& tensor, BufferPool* pool) {
  const bool rows =
      tensor.contiguous() || tensor.rank() == 0 || tensor.strides().back() == 1 || tensor.shape().back() <= 1;
  return rows ? tensor : tensor.to_contiguous(pool);
}

}  // namespace attune
