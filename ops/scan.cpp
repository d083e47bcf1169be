// Scan: a body run along an axis of its inputs, with states handed from step to step.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/body.h"
#include "ops/support/counts.h"
#include "ops/support/elements.h"
#include "ops/support/parts.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ScanKernel final : public Kernel {
 public:
  explicit ScanKernel(const KernelContext& context) : body_(context.compile("body")), batched_(context.opset() < 9) {
    const Node& node = context.node();
    const Graph& graph = body_of(node, "body");
    const int64_t scans = node.attr_int("num_scan_inputs", 0);
    if (scans < 1 || static_cast<size_t>(scans) > graph.inputs().size())
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("num_scan_inputs is {}, the body has {} inputs", scans, graph.inputs().size()));
    inputs_ = static_cast<size_t>(scans);
    states_ = graph.inputs().size() - inputs_;
    if (graph.outputs().size() < states_)
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("a body with {} states and {} outputs", states_, graph.outputs().size()));
    for (size_t i = states_; i < graph.outputs().size(); ++i) scanned_.push_back(graph.outputs()[i]->tensor_type());
    const auto list = [&](std::string_view name, size_t size) {
      auto values = node.attr_ints(name);
      values.resize(size, 0);
      return values;
    };
    input_axes_ = list("scan_input_axes", inputs_);
    input_backwards_ = list(batched_ ? "directions" : "scan_input_directions", inputs_);
    output_axes_ = list("scan_output_axes", scanned_.size());
    output_backwards_ = list("scan_output_directions", scanned_.size());
  }

  void run(KernelCall& call) const override {
    if (batched_) {
      run_batches(call);
      return;
    }
    std::vector<Datum> state;
    for (size_t i = 0; i < states_; ++i) state.push_back(call.take(i));
    std::vector<Tensor> sequences;
    for (size_t i = 0; i < inputs_; ++i) sequences.push_back(call.input(states_ + i));
    const int64_t length = length_of(sequences);
    auto outputs = scan(call, state, sequences, length);
    for (size_t i = 0; i < states_; ++i) call.set_datum(i, std::move(state[i]));
    for (size_t i = 0; i < scanned_.size(); ++i) call.set_output(states_ + i, join(i, outputs[i], call.pool()));
  }
  std::string implementation() const override { return "body"; }

 private:
  size_t input_axis(size_t i, size_t rank) const { return normalize_axis(input_axes_[i], rank); }

  int64_t length_of(const std::vector<Tensor>& sequences) const {
    const int64_t length = sequences[0].dim(input_axis(0, sequences[0].rank()));
    for (size_t i = 1; i < inputs_; ++i)
      if (const int64_t n = sequences[i].dim(input_axis(i, sequences[i].rank())); n != length)
        fail_input(states_ + i, fmt::format("length {}", length), fmt::format("{}", n));
    return length;
  }

  // Runs the body over `length` steps; gives what each scan output was in each.
  std::vector<std::vector<Tensor>> scan(KernelCall& call, std::vector<Datum>& state,
                                        const std::vector<Tensor>& sequences, int64_t length) const {
    std::vector<std::vector<Tensor>> outputs(scanned_.size());
    std::vector<Datum> values;
    for (int64_t t = 0; t < length; ++t) {
      values.clear();
      for (Datum& datum : state) values.push_back(std::move(datum));
      for (size_t i = 0; i < inputs_; ++i) {
        const int64_t at = input_backwards_[i] ? sequences[i].dim(input_axis(i, sequences[i].rank())) - 1 - t : t;
        values.emplace_back(element_of(sequences[i], input_axis(i, sequences[i].rank()), at, call.pool()));
      }
      call.run(*body_, values);
      for (size_t i = 0; i < states_; ++i) state[i] = std::move(values.at(i));
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(values.at(states_ + i).tensor());
    }
    return outputs;
  }

  Tensor join(size_t output, std::vector<Tensor>& steps, BufferPool* pool) const {
    if (output_backwards_[output]) std::reverse(steps.begin(), steps.end());
    const auto rank = static_cast<size_t>(
        (steps.empty() ? std::max(scanned_[output].rank(), 0) : static_cast<int>(steps[0].rank())) + 1);
    const size_t axis = normalize_axis(output_axes_[output], rank);
    return steps.empty() ? empty_scan_output(scanned_[output], axis) : stack(steps, axis, pool);
  }

  // Opset 8: all values have a batch axis first, and input 0 may give each sequence's length.
  void run_batches(KernelCall& call) const {
    const auto [batch, longest] = batch_and_length(call);
    const std::vector<int64_t> lengths = sequence_lengths(call, batch, longest);
    if (batch == 0) return set_empty(call, longest);
    std::vector<std::vector<Tensor>> states(states_), outputs(scanned_.size());
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      std::vector<Datum> state;
      for (size_t i = 0; i < states_; ++i) state.emplace_back(element_of(call.input(1 + i), 0, b, call.pool()));
      std::vector<Tensor> sequences;
      for (size_t i = 0; i < inputs_; ++i) {
        const Tensor whole = element_of(call.input(1 + states_ + i), 0, b, call.pool());
        sequences.push_back(part_of(whole, 0, 0, length, call.pool()));
      }
      auto steps = scan(call, state, sequences, length);
      for (size_t i = 0; i < states_; ++i) states[i].push_back(state[i].tensor());
      for (size_t i = 0; i < outputs.size(); ++i)
        outputs[i].push_back(padded(join(i, steps[i], call.pool()), longest, call.pool()));
    }
    for (size_t i = 0; i < states_; ++i) call.set_output(i, stack(states[i], 0, call.pool()));
    for (size_t i = 0; i < outputs.size(); ++i) call.set_output(states_ + i, stack(outputs[i], 0, call.pool()));
  }

  // The first two sizes, which all sequences share; states share the batch.
  std::pair<int64_t, int64_t> batch_and_length(const KernelCall& call) const {
    const Tensor& first = call.input(1 + states_);
    if (first.rank() < 2) fail_input(1 + states_, "rank 2 or more", first.shape().to_string());
    const Shape leading = first.shape().first(2);
    for (size_t i = 0; i < states_ + inputs_; ++i) {
      const Shape& shape = call.input(1 + i).shape();
      const size_t shared = i < states_ ? 1 : 2;
      if (shape.rank() < shared || shape.first(shared) != leading.first(shared))
        fail_input(1 + i, fmt::format("sizes that begin as {}", leading.first(shared).to_string()), shape.to_string());
    }
    return {leading[0], leading[1]};
  }

  static std::vector<int64_t> sequence_lengths(const KernelCall& call, int64_t batch, int64_t longest) {
    std::vector<int64_t> lengths(static_cast<size_t>(batch), longest);
    if (!call.has(0)) return lengths;
    expect_count(call.input(0), 0, batch);
    lengths = call.input(0).to_int64();
    for (const int64_t length : lengths)
      if (length < 0 || length > longest)
        fail_input(0, fmt::format("lengths from 0 to {}", longest), fmt::format("{}", length));
    return lengths;
  }

  // Results of an empty batch: states as they were given, outputs as the body declares them.
  void set_empty(KernelCall& call, int64_t longest) const {
    for (size_t i = 0; i < states_; ++i) call.set_output(i, call.input(1 + i));
    for (size_t i = 0; i < scanned_.size(); ++i) {
      const Tensor steps = empty_scan_output(scanned_[i], 0);
      Shape shape = steps.shape();
      shape[0] = longest;
      shape.insert(0, 0);
      call.set_output(states_ + i, Tensor::allocate(steps.type(), shape, call.pool()));
    }
  }

  // Zeros after a sequence's end.
  static Tensor padded(const Tensor& sequence, int64_t length, BufferPool* pool) {
    if (sequence.dim(0) == length) return sequence;
    Shape shape = sequence.shape();
    shape[0] = length;
    Tensor out = Tensor::allocate(sequence.type(), shape, pool);
    dispatch_width(out.type(), [&]<class T>() { std::fill_n(mutable_elements<T>(out), out.count(), T{}); });
    copy_part(sequence, out, 0, 0);
    return out;
  }

  std::shared_ptr<const Subprogram> body_;
  bool batched_;
  size_t inputs_ = 0, states_ = 0;
  std::vector<TensorType> scanned_;
  std::vector<int64_t> input_axes_, input_backwards_, output_axes_, output_backwards_;
};

}  // namespace

std::vector<OpDef> ops_in_scan() { return {{"", "Scan", 8, prepare<ScanKernel>}}; }

}  // namespace attune
