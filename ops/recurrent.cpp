// RNN, GRU, LSTM: one product for the inputs of all steps, then a product with the state for each step. ONNX Runtime's
// DynamicQuantizeLSTM has 8-bit weights for both; the states of all rows are quantised together, as it does on one
// thread (on several it takes the rows of each thread together).
#include <fmt/format.h>

#include <array>
#include <vector>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/recurrent.h"

namespace attune {
namespace {

enum class Cell { kRnn, kGru, kLstm };

// Inputs X, W, R, B, sequence_lens, initial_h, initial_c, P; of DynamicQuantizeLSTM W_scale, W_zero_point, R_scale,
// R_zero_point too.
enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes, kWScale, kWZero, kRScale, kRZero };

// The projections of one direction. GRU without linear_before_reset takes the candidate's recurrence apart, since its
// operand depends on the reset gate.
struct Weights {
  Weights(const Tensor& w, const Tensor& r, int64_t direction, int64_t split, const KernelOptions& options)
      : input(matrix_slice(w, direction, 0, w.dim(1)), options),
        recurrent(matrix_slice(r, direction, 0, split), options) {
    if (split < r.dim(1))
      candidate = std::make_unique<Projection>(matrix_slice(r, direction, split, r.dim(1)), options);
  }
  Weights(const QuantizedDirections& w, const QuantizedDirections& r, int64_t direction)
      : input(w, direction), recurrent(r, direction) {}
  Projection input, recurrent;
  std::unique_ptr<Projection> candidate;
};

class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(Cell cell, bool quantized, const KernelContext& context)
      : cell_(cell),
        gates_(cell == Cell::kRnn   ? 1
               : cell == Cell::kGru ? 3
                                    : 4),
        hidden_(context.node().attr_int("hidden_size", 0)),
        batch_first_(context.node().attr_int("layout", 0) != 0),
        reset_after_(cell == Cell::kGru && context.node().attr_int("linear_before_reset", 0) != 0),
        coupled_(context.node().attr_int("input_forget", 0) != 0),
        clip_(context.node().attr_float("clip", 0.0F)) {
    const Node& node = context.node();
    const std::string direction = node.attr_string("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      throw Error(Error::Kind::kInvalidModel, fmt::format("unknown direction '{}'", direction));
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = {direction == "reverse", true};
    static const std::array<std::vector<std::string>, 3> kDefaults{
        {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}}};
    activations_ = cell_activations(node, static_cast<size_t>(directions_), kDefaults[static_cast<size_t>(cell)]);
    const Tensor *w = context.constant(kW), *r = context.constant(kR);
    if (quantized) {
      weights_ = quantized_weights(context);
    } else if (w && r) {
      weights_ = make_weights(*w, *r, context.options());
      hidden_ = r->dim(2);
    }
  }

  void run(KernelCall& call) const override {
    dispatch_float(call.input(kX).type(), [&]<class T>() { compute<T>(call); });
  }
  bool uses_input(size_t i) const override {
    return !weights_ || (i != kW && i != kR && i != kWScale && i != kWZero && i != kRScale && i != kRZero);
  }
  std::string implementation() const override { return "projections"; }

 private:
  std::vector<Weights> make_weights(const Tensor& w, const Tensor& r, const KernelOptions& options) const {
    expect_rank(w, kW, 3);
    expect_rank(r, kR, 3);
    const int64_t hidden = r.dim(2);
    if (w.dim(0) != directions_ || w.dim(1) != gates_ * hidden)
      fail_input(kW, fmt::format("shape ({},{},inputs)", directions_, gates_ * hidden), w.shape().to_string());
    if (r.dim(0) != directions_ || r.dim(1) != gates_ * hidden || (hidden_ && hidden != hidden_))
      fail_input(kR,
                 fmt::format("shape ({},{},{})", directions_, gates_ * (hidden_ ? hidden_ : hidden),
                             hidden_ ? hidden_ : hidden),
                 r.shape().to_string());
    std::vector<Weights> all;
    const int64_t split = cell_ == Cell::kGru && !reset_after_ ? 2 * hidden : gates_ * hidden;
    for (int64_t d = 0; d < directions_; ++d) all.emplace_back(w, r, d, split, options);
    return all;
  }

  // W (directions, inputs, 4 hidden) and R (directions, hidden, 4 hidden), 8-bit integers.
  std::vector<Weights> quantized_weights(const KernelContext& context) {
    const auto read = [&](size_t i, size_t scale, size_t zero) -> QuantizedDirections {
      const Tensor *values = context.constant(i), *scales = context.constant(scale);
      if (!values || !scales || (context.has_input(zero) && !context.constant(zero)))
        throw Error(Error::Kind::kUnsupported, "weights that aren't constant");
      expect_rank(*values, i, 3);
      if (values->type() != DataType::kInt8 && values->type() != DataType::kUInt8)
        fail_input(i, "int8 or uint8", name(values->type()));
      if (values->dim(0) != directions_)
        fail_input(i, fmt::format("{} directions", directions_), values->shape().to_string());
      return {*values, *scales, context.constant(zero)};
    };
    const QuantizedDirections w = read(kW, kWScale, kWZero), r = read(kR, kRScale, kRZero);
    hidden_ = r.values.dim(1);
    const int64_t width = gates_ * hidden_;
    if (w.values.dim(2) != width) fail_input(kW, fmt::format("{} columns", width), w.values.shape().to_string());
    if (r.values.dim(2) != width) fail_input(kR, fmt::format("{} columns", width), r.values.shape().to_string());
    std::vector<Weights> all;
    for (int64_t d = 0; d < directions_; ++d) all.emplace_back(w, r, d);
    return all;
  }

  template <class T>
  struct Run {
    int64_t steps, batch, inputs, hidden;
    FloatView<T> x, biases, peepholes;
    std::vector<int64_t> lengths;
    // States (directions, batch, hidden), and all results with strides.
    std::vector<T> h, c;
    T* y = nullptr;
    int64_t y_step = 0, y_direction = 0, y_row = 0;
    BufferPool* pool = nullptr;
  };

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(kX);
    expect_rank(x, kX, 3);
    Run<T> run;
    run.steps = x.dim(batch_first_ ? 1 : 0);
    run.batch = x.dim(batch_first_ ? 0 : 1);
    run.inputs = x.dim(2);
    run.hidden = weights_ ? hidden_ : call.input(kR).shape().back();
    run.pool = call.pool();
    run.x = FloatView<T>(batch_first_ ? swap_leading_axes(x, call.pool()) : x, call.pool());
    read_optional(call, run);
    const DataType type = x.type();
    const Shape y_shape = batch_first_ ? Shape{run.batch, run.steps, directions_, run.hidden}
                                       : Shape{run.steps, directions_, run.batch, run.hidden};
    FloatResult<T> y(call, 0, type, y_shape);
    run.y = y.data();
    run.y_step = batch_first_ ? directions_ * run.hidden : directions_ * run.batch * run.hidden;
    run.y_direction = batch_first_ ? run.hidden : run.batch * run.hidden;
    run.y_row = batch_first_ ? run.steps * directions_ * run.hidden : run.hidden;
    const bool ragged = std::any_of(run.lengths.begin(), run.lengths.end(), [&](int64_t n) { return n < run.steps; });
    if (ragged) std::fill_n(run.y, y_shape.count(), T{0});

    std::vector<Weights> made;
    if (!weights_) made = make_weights(call.input(kW), call.input(kR), {.pack_weights = false, .panel_store = nullptr});
    const std::vector<Weights>& weights = weights_ ? *weights_ : made;
    if (weights.front().input.inner() != run.inputs)
      fail_input(kX, fmt::format("{} inputs a step", weights.front().input.inner()), x.shape().to_string());
    for (int64_t d = 0; d < directions_; ++d) run_direction(run, weights[static_cast<size_t>(d)], d);
    y.store(call);
    store_state(call, 1, type, run, run.h);
    if (cell_ == Cell::kLstm) store_state(call, 2, type, run, run.c);
  }

  template <class T>
  void read_optional(KernelCall& call, Run<T>& run) const {
    const auto view = [&](size_t i, const Shape& shape) {
      const Tensor* t = call.optional_input(i);
      if (t && t->shape() != shape) fail_input(i, shape.to_string(), t->shape().to_string());
      return FloatView<T>(t, run.pool);
    };
    run.biases = view(kB, {directions_, 2 * gates_ * run.hidden});
    if (cell_ == Cell::kLstm) run.peepholes = view(kPeepholes, {directions_, 3 * run.hidden});
    run.lengths.assign(static_cast<size_t>(run.batch), run.steps);
    if (const Tensor* lengths = call.optional_input(kLengths)) {
      if (lengths->count() != run.batch)
        fail_input(kLengths, fmt::format("{} lengths", run.batch), lengths->shape().to_string());
      run.lengths = lengths->to_int64();
      for (const int64_t n : run.lengths)
        if (n < 0 || n > run.steps)
          fail_input(kLengths, fmt::format("lengths from 0 to {}", run.steps), std::to_string(n));
    }
    const auto state = [&](size_t i, std::vector<T>& to) {
      to.assign(static_cast<size_t>(directions_ * run.batch * run.hidden), T{0});
      const FloatView<T> from =
          view(i, batch_first_ ? Shape{run.batch, directions_, run.hidden} : Shape{directions_, run.batch, run.hidden});
      if (from)
        for (int64_t d = 0; d < directions_; ++d)
          for (int64_t b = 0; b < run.batch; ++b)
            std::copy_n(from.data() + (batch_first_ ? b * directions_ + d : d * run.batch + b) * run.hidden, run.hidden,
                        to.data() + (d * run.batch + b) * run.hidden);
    };
    state(kInitialH, run.h);
    if (cell_ == Cell::kLstm) state(kInitialC, run.c);
  }

  static Tensor swap_leading_axes(const Tensor& x, BufferPool* pool) {
    const int64_t a = x.dim(0), b = x.dim(1);
    Tensor y = Tensor::allocate(x.type(), {b, a, x.dim(2)}, pool);
    const size_t row = storage_bytes(x.type(), static_cast<size_t>(x.dim(2)));
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < b; ++j)
        std::copy_n(x.raw() + static_cast<size_t>(i * b + j) * row, row,
                    y.mutable_raw() + static_cast<size_t>(j * a + i) * row);
    return y;
  }

  template <class T>
  void store_state(KernelCall& call, size_t output, DataType type, const Run<T>& run,
                   const std::vector<T>& state) const {
    if (output >= call.output_count() || !call.wants(output)) return;
    FloatResult<T> to(
        call, output, type,
        batch_first_ ? Shape{run.batch, directions_, run.hidden} : Shape{directions_, run.batch, run.hidden});
    for (int64_t d = 0; d < directions_; ++d)
      for (int64_t b = 0; b < run.batch; ++b)
        std::copy_n(state.data() + (d * run.batch + b) * run.hidden, run.hidden,
                    to.data() + (batch_first_ ? b * directions_ + d : d * run.batch + b) * run.hidden);
    to.store(call);
  }

  template <class T>
  void run_direction(Run<T>& run, const Weights& w, int64_t d) const {
    const int64_t hidden = run.hidden, width = gates_ * hidden, batch = run.batch;
    // Both biases go with the input, but the recurrent bias of GRU's candidate if the reset gate comes after it.
    std::vector<T> input_bias, recurrent_bias;
    if (run.biases) {
      const T* b = run.biases.data() + d * 2 * width;
      input_bias.assign(b, b + width);
      const int64_t together = reset_after_ ? 2 * hidden : width;
      for (int64_t i = 0; i < together; ++i) input_bias[static_cast<size_t>(i)] += b[width + i];
      if (reset_after_) {
        recurrent_bias.assign(static_cast<size_t>(width), T{0});
        std::copy_n(b + width + together, hidden, recurrent_bias.begin() + together);
      }
    }
    const auto pointer = [](const std::vector<T>& v) { return v.empty() ? nullptr : v.data(); };
    Tensor gates = Tensor::allocate(kDataTypeOf<T>, {run.steps * batch, width}, run.pool);
    w.input.run(run.x.data(), run.steps * batch, gates.template mutable_data<T>(), pointer(input_bias), run.pool);
    const int64_t products = w.candidate ? 2 * hidden : width;
    Tensor recurrent = Tensor::allocate(kDataTypeOf<T>, {batch, products + hidden}, run.pool);
    T* from_state = recurrent.template mutable_data<T>();
    T* candidate = from_state + batch * products;
    Tensor reset = Tensor::allocate(kDataTypeOf<T>, {batch, hidden}, run.pool);

    T* h = run.h.data() + d * batch * hidden;
    T* c = cell_ == Cell::kLstm ? run.c.data() + d * batch * hidden : nullptr;
    const bool backwards = reverse_[static_cast<size_t>(d)];
    for (int64_t s = 0; s < run.steps; ++s) {
      w.recurrent.run(h, batch, from_state, pointer(recurrent_bias), run.pool);
      const auto each_row = [&](auto&& f) {
        parallel_items(batch, 16 * hidden, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            const int64_t length = run.lengths[static_cast<size_t>(b)];
            if (s >= length) continue;
            const int64_t t = backwards ? length - 1 - s : s;
            f(b, t, gates.template mutable_data<T>() + (t * batch + b) * width);
          }
        });
      };
      if (w.candidate) {
        T* r = reset.template mutable_data<T>();
        each_row([&](int64_t b, int64_t, T* g) {
          add(g, from_state + b * products, 2 * hidden);
          activation(d, 0).apply(g, 2 * hidden, clip_);
          for (int64_t i = 0; i < hidden; ++i) r[b * hidden + i] = g[hidden + i] * h[b * hidden + i];
        });
        w.candidate->run(r, batch, candidate, nullptr, run.pool);
      }
      each_row([&](int64_t b, int64_t t, T* g) {
        T* state = h + b * hidden;
        switch (cell_) {
          case Cell::kRnn:
            step_rnn(d, hidden, g, from_state + b * products, state);
            break;
          case Cell::kGru:
            step_gru(d, hidden, g, w.candidate ? nullptr : from_state + b * products, candidate + b * hidden, state);
            break;
          case Cell::kLstm:
            step_lstm(d, hidden, g, from_state + b * products,
                      run.peepholes ? run.peepholes.data() + d * 3 * hidden : nullptr, state, c + b * hidden);
            break;
        }
        std::copy_n(state, hidden, run.y + t * run.y_step + d * run.y_direction + b * run.y_row);
      });
    }
  }

  template <class T>
  static void add(T* to, const T* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  }

  const CellActivation& activation(int64_t direction, size_t i) const {
    return activations_[static_cast<size_t>(direction) * (activations_.size() / static_cast<size_t>(directions_)) + i];
  }

  // g: the gates' inputs, overwritten; r: the products with the state.
  template <class T>
  void step_rnn(int64_t d, int64_t n, T* g, const T* r, T* h) const {
    add(g, r, n);
    activation(d, 0).apply(g, n, clip_);
    std::copy_n(g, n, h);
  }

  // Gates z, r, h. r null: z and r are done, and `candidate` is the recurrent part of h.
  template <class T>
  void step_gru(int64_t d, int64_t n, T* g, const T* r, const T* candidate, T* h) const {
    T* new_state = g + 2 * n;
    if (r) {
      add(g, r, 2 * n);
      activation(d, 0).apply(g, 2 * n, clip_);
      for (int64_t i = 0; i < n; ++i) new_state[i] += g[n + i] * r[2 * n + i];
    } else {
      add(new_state, candidate, n);
    }
    activation(d, 1).apply(new_state, n, clip_);
    for (int64_t i = 0; i < n; ++i) h[i] = (1 - g[i]) * new_state[i] + g[i] * h[i];
  }

  // Gates i, o, f, c; peepholes i, o, f.
  template <class T>
  void step_lstm(int64_t d, int64_t n, T* g, const T* r, const T* peepholes, T* h, T* c) const {
    T *input = g, *output = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
    add(g, r, 4 * n);
    if (peepholes)
      for (int64_t i = 0; i < n; ++i) {
        input[i] += peepholes[i] * c[i];
        forget[i] += peepholes[2 * n + i] * c[i];
      }
    activation(d, 0).apply(input, n, clip_);
    if (coupled_) {
      for (int64_t i = 0; i < n; ++i) forget[i] = 1 - input[i];
    } else {
      activation(d, 0).apply(forget, n, clip_);
    }
    activation(d, 1).apply(cell, n, clip_);
    for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * c[i] + input[i] * cell[i];
    if (peepholes)
      for (int64_t i = 0; i < n; ++i) output[i] += peepholes[n + i] * c[i];
    activation(d, 0).apply(output, n, clip_);
    std::copy_n(c, n, h);
    activation(d, 2).apply(h, n, clip_);
    for (int64_t i = 0; i < n; ++i) h[i] *= output[i];
  }

  Cell cell_;
  int64_t gates_, hidden_, directions_ = 1;
  bool batch_first_, reset_after_, coupled_;
  float clip_;
  std::array<bool, 2> reverse_{};
  std::vector<CellActivation> activations_;
  std::optional<std::vector<Weights>> weights_;
};

template <Cell kCell, bool kQuantized = false>
std::unique_ptr<Kernel> make(const KernelContext& context) {
  return std::make_unique<RecurrentKernel>(kCell, kQuantized, context);
}

}  // namespace

std::vector<OpDef> ops_in_recurrent();
std::vector<OpDef> ops_in_recurrent() {
  return {{"", "RNN", 1, make<Cell::kRnn>},
          {"", "GRU", 1, make<Cell::kGru>},
          {"", "LSTM", 1, make<Cell::kLstm>},
          {"com.microsoft", "DynamicQuantizeLSTM", 1, make<Cell::kLstm, true>}};
}

}  // namespace attune
