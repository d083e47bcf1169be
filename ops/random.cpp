// RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial, Dropout.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/elements.h"
#include "ops/support/prepare.h"
#include "ops/support/random.h"

namespace attune {
namespace {

DataType type_of(const Node& node, DataType fallback) {
  return static_cast<DataType>(node.attr_int("dtype", static_cast<int64_t>(fallback)));
}

// RandomUniform(Like), RandomNormal(Like): the shape from an attribute or from input 0.
class RandomKernel final : public Kernel {
 public:
  explicit RandomKernel(const KernelContext& context)
      : seed_(context.node()),
        like_(context.node().type().ends_with("Like")),
        normal_(context.node().type().starts_with("RandomNormal")) {
    const Node& node = context.node();
    type_ = type_of(node, like_ ? DataType::kUndefined : DataType::kFloat);
    if (!like_) shape_ = Shape(node.attr_ints("shape"));
    offset_ = normal_ ? node.attr_float("mean", 0) : node.attr_float("low", 0);
    factor_ = normal_ ? node.attr_float("scale", 1) : node.attr_float("high", 1) - offset_;
  }

  void run(KernelCall& call) const override {
    const DataType type = type_ == DataType::kUndefined ? call.input(0).type() : type_;
    Tensor numbers = Tensor::allocate(DataType::kDouble, like_ ? call.input(0).shape() : shape_, call.pool());
    const RandomStream random = seed_.next();
    double* y = numbers.mutable_data<double>();
    for (int64_t i = 0; i < numbers.count(); ++i)
      y[i] = offset_ + factor_ * (normal_ ? random.normal(i) : random.uniform(i));
    call.set_output(0, cast(numbers, type, call.pool()));
  }

 private:
  RandomSeed seed_;
  bool like_, normal_;
  DataType type_ = DataType::kUndefined;
  Shape shape_;
  double offset_ = 0, factor_ = 1;
};

class BernoulliKernel final : public Kernel {
 public:
  explicit BernoulliKernel(const KernelContext& context)
      : seed_(context.node()), type_(type_of(context.node(), DataType::kUndefined)) {}

  void run(KernelCall& call) const override {
    const DataType type = type_ == DataType::kUndefined ? call.input(0).type() : type_;
    const Tensor probabilities = cast(call.input(0), DataType::kDouble, call.pool());
    Tensor hits = Tensor::allocate(DataType::kUInt8, probabilities.shape(), call.pool());
    const RandomStream random = seed_.next();
    for (int64_t i = 0; i < hits.count(); ++i)
      hits.mutable_data<uint8_t>()[i] = random.uniform(i) < probabilities.data<double>()[i];
    call.set_output(0, cast(hits, type, call.pool()));
  }

 private:
  RandomSeed seed_;
  DataType type_;
};

// Draws classes from unnormalised log probabilities.
class MultinomialKernel final : public Kernel {
 public:
  explicit MultinomialKernel(const KernelContext& context)
      : seed_(context.node()),
        type_(type_of(context.node(), DataType::kInt32)),
        samples_(context.node().attr_int("sample_size", 1)) {}

  void run(KernelCall& call) const override {
    expect_rank(call.input(0), 0, 2);
    const Tensor logits = cast(call.input(0), DataType::kDouble, call.pool());
    const int64_t batch = logits.dim(0), classes = logits.dim(1);
    if (classes == 0) fail_input(0, "classes", logits.shape().to_string());
    Tensor drawn = Tensor::allocate(DataType::kInt64, {batch, samples_}, call.pool());
    const RandomStream random = seed_.next();
    std::vector<double> cumulative(static_cast<size_t>(classes));
    for (int64_t b = 0; b < batch; ++b) {
      const double* row = logits.data<double>() + b * classes;
      const double largest = *std::max_element(row, row + classes);
      double total = 0;
      for (int64_t c = 0; c < classes; ++c) cumulative[static_cast<size_t>(c)] = total += std::exp(row[c] - largest);
      for (int64_t s = 0; s < samples_; ++s) {
        const double at = random.uniform(b * samples_ + s) * total;
        const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
        drawn.mutable_data<int64_t>()[b * samples_ + s] = std::min<int64_t>(found - cumulative.begin(), classes - 1);
      }
    }
    call.set_output(0, cast(drawn, type_, call.pool()));
  }

 private:
  RandomSeed seed_;
  DataType type_;
  int64_t samples_;
};

// Hands its input on, except in training mode (opset 12 on).
class DropoutKernel final : public Kernel {
 public:
  explicit DropoutKernel(const KernelContext& context) : seed_(context.node()) {}

  void run(KernelCall& call) const override {
    const Shape shape = call.input(0).shape();
    const bool training = call.has(2) && read_integer(call, 2) != 0;
    const double ratio = call.has(1) ? read_number(call.input(1), 1) : 0.5;
    if (!training || ratio == 0) {
      call.set_datum(0, call.take(0));
      if (call.output_count() > 1) {
        Tensor& mask = call.output(1, DataType::kBool, shape);
        std::fill_n(mask.mutable_data<bool>(), mask.count(), true);
      }
      return;
    }
    if (!(ratio > 0 && ratio < 1)) fail_input(1, "a ratio in [0, 1)", fmt::format("{}", ratio));
    Tensor mask = Tensor::allocate(DataType::kBool, shape, call.pool());
    Tensor numbers = cast(call.input(0), DataType::kDouble, call.pool());
    if (!numbers.unique()) numbers = numbers.clone(call.pool());
    const RandomStream random = seed_.next();
    for (int64_t i = 0; i < mask.count(); ++i) {
      const bool keep = random.uniform(i) >= ratio;
      mask.mutable_data<bool>()[i] = keep;
      numbers.mutable_data<double>()[i] *= keep ? 1 / (1 - ratio) : 0;
    }
    call.set_output(0, cast(numbers, call.input(0).type(), call.pool()));
    if (call.output_count() > 1) call.set_output(1, std::move(mask));
  }

 private:
  RandomSeed seed_;
};

}  // namespace

std::vector<OpDef> ops_in_random() {
  return {
      {"", "RandomUniform", 1, prepare<RandomKernel>, false, false},
      {"", "RandomUniformLike", 1, prepare<RandomKernel>, false, false},
      {"", "RandomNormal", 1, prepare<RandomKernel>, false, false},
      {"", "RandomNormalLike", 1, prepare<RandomKernel>, false, false},
      {"", "Bernoulli", 15, prepare<BernoulliKernel>, false, false},
      {"", "Multinomial", 7, prepare<MultinomialKernel>, false, false},
      {"", "Dropout", 7, prepare<DropoutKernel>, false, false},
  };
}

}  // namespace attune
