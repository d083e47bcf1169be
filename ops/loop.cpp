// Loop: a body run while a condition holds, at most a number of times.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/body.h"
#include "ops/support/elements.h"
#include "ops/support/parts.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class LoopKernel final : public Kernel {
 public:
  explicit LoopKernel(const KernelContext& context) : body_(context.compile("body")) {
    const Graph& graph = body_of(context.node(), "body");
    if (graph.inputs().size() < 2 || graph.outputs().size() + 1 < graph.inputs().size())
      throw Error(Error::Kind::kInvalidModel, fmt::format("a loop body with {} inputs and {} outputs",
                                                          graph.inputs().size(), graph.outputs().size()));
    carried_ = graph.inputs().size() - 2;
    for (size_t i = 0; i < 2; ++i) vector_[i] = graph.inputs()[i]->tensor_type().rank() == 1;
    for (size_t i = 1 + carried_; i < graph.outputs().size(); ++i)
      scanned_.push_back(graph.outputs()[i]->tensor_type());
  }

  void run(KernelCall& call) const override {
    const int64_t limit = call.has(0) ? read_integer(call, 0) : INT64_MAX;
    const bool conditional = call.has(1);
    bool go_on = !conditional || read_integer(call, 1) != 0;
    std::vector<Datum> state;
    for (size_t i = 0; i < carried_; ++i) state.push_back(call.take(2 + i));
    std::vector<std::vector<Tensor>> scans(scanned_.size());
    std::vector<Datum> values;
    for (int64_t i = 0; i < limit && go_on; ++i) {
      values.clear();
      values.emplace_back(scalar(i, 0));
      values.emplace_back(scalar(go_on, 1));
      for (Datum& datum : state) values.push_back(std::move(datum));
      call.run(*body_, values);
      if (conditional) go_on = condition(values.at(0));
      for (size_t s = 0; s < carried_; ++s) state[s] = std::move(values.at(1 + s));
      for (size_t s = 0; s < scans.size(); ++s) scans[s].push_back(values.at(1 + carried_ + s).tensor());
    }
    for (size_t i = 0; i < carried_; ++i) call.set_datum(i, std::move(state[i]));
    for (size_t s = 0; s < scans.size(); ++s) {
      if (!call.wants(carried_ + s)) continue;
      call.set_output(carried_ + s,
                      scans[s].empty() ? empty_scan_output(scanned_[s], 0) : stack(scans[s], 0, call.pool()));
    }
  }
  std::string implementation() const override { return "body"; }

 private:
  template <class T>
  Tensor scalar(T value, size_t input) const {
    return vector_[input] ? Tensor::from<T>({1}, {value}) : Tensor::scalar(value);
  }
  static bool condition(const Datum& value) {
    const Tensor& t = value.tensor();
    if (t.type() != DataType::kBool || t.count() != 1)
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("the body's condition is {} {}", name(t.type()), t.shape().to_string()));
    return t.data<bool>()[0];
  }

  std::shared_ptr<const Subprogram> body_;
  size_t carried_ = 0;
  bool vector_[2] = {};              // the body wants the counter or condition as a tensor of shape (1)
  std::vector<TensorType> scanned_;  // elements of the outputs that are collected
};

}  // namespace

std::vector<OpDef> ops_in_loop() { return {{"", "Loop", 1, prepare<LoopKernel>}}; }

}  // namespace attune
