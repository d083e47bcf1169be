// RNN, GRU, LSTM: one product for the inputs of many steps, then a product with the state for each step. ONNX Runtime's
// DynamicQuantizeLSTM has 8-bit weights for both; the states of all rows are quantised together, as it does on one
// thread (on several it takes the rows of each thread together).
#include <fmt/format.h>

#include <array>
#include <vector>

#include "ops/op.h"
#include "ops/support/dnnl_lstm.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/quantized.h"
#include "ops/support/recurrent.h"
#include "ops/support/recurrent_cell.h"

namespace attune {
namespace {

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
  std::unique_ptr<onednn::Lstm> primitive;  // for many rows; null where it doesn't serve
};

class RecurrentKernel : public FloatKernel<RecurrentKernel> {
 public:
  RecurrentKernel(Cell cell, bool quantized, const KernelContext& context)
      : direction_(context.node().attr_string("direction", "forward")),
        directions_(direction_ == "bidirectional" ? 2 : 1),
        cell_(cell, context.node(), static_cast<size_t>(directions_)),
        gates_(cell_.gates()),
        hidden_(context.node().attr_int("hidden_size", 0)),
        batch_first_(context.node().attr_int("layout", 0) != 0),
        reset_after_(cell == Cell::kGru && context.node().attr_int("linear_before_reset", 0) != 0) {
    if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional")
      throw Error(Error::Kind::kInvalidModel, fmt::format("unknown direction '{}'", direction_));
    const Tensor *w = context.constant(kW), *r = context.constant(kR);
    if (quantized) {
      weights_ = quantized_weights(context);
    } else if (w && r) {
      weights_ = make_weights(*w, *r, context.options());
      hidden_ = r->dim(2);
    }
  }

  bool uses_input(size_t i) const override {
    return !weights_ || (i != kW && i != kR && i != kWScale && i != kWZero && i != kRScale && i != kRZero);
  }
  std::string implementation() const override {
    const std::string primitive =
        weights_ && weights_->front().primitive ? weights_->front().primitive->implementation() : "";
    return primitive.empty() ? "projections" : primitive;
  }

 private:
  friend FloatKernel<RecurrentKernel>;

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
    const int64_t split = cell_.cell() == Cell::kGru && !reset_after_ ? 2 * hidden : gates_ * hidden;
    for (int64_t d = 0; d < directions_; ++d) all.emplace_back(w, r, d, split, options);
    if (cell_.cell() == Cell::kLstm && cell_.plain() && options.pack_weights && w.type() == DataType::kFloat)
      for (int64_t d = 0; d < directions_; ++d)
        all[static_cast<size_t>(d)].primitive =
            std::make_unique<onednn::Lstm>(matrix_slice(w, d, 0, w.dim(1)), matrix_slice(r, d, 0, r.dim(1)));
    return all;
  }

  // W (directions, inputs, 4 hidden) and R (directions, hidden, 4 hidden), 8-bit integers.
  std::vector<Weights> quantized_weights(const KernelContext& context) {
    const auto read = [&](size_t i, size_t scale, size_t zero) -> QuantizedDirections {
      const Tensor *values = context.constant(i), *scales = context.constant(scale);
      if (!values || !scales || (context.has_input(zero) && !context.constant(zero)))
        throw Error(Error::Kind::kUnsupported, "weights that aren't constant");
      expect_rank(*values, i, 3);
      expect_int8(*values, i);
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

  bool backwards(int64_t direction) const { return direction == 1 || direction_ == "reverse"; }

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

    bool ragged() const {
      return std::any_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n < steps; });
    }
  };

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(kX);
    expect_rank(x, kX, 3);
    Run<T> run;
    run.steps = x.dim(batch_first_ ? 1 : 0);
    run.batch = x.dim(batch_first_ ? 0 : 1);
    run.inputs = x.dim(2);
    if (!weights_) expect_rank(call.input(kR), kR, 3);
    run.hidden = weights_ ? hidden_ : call.input(kR).dim(2);
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
    if (run.ragged()) std::fill_n(run.y, y_shape.count(), T{0});

    std::vector<Weights> made;
    if (!weights_) made = make_weights(call.input(kW), call.input(kR), {.pack_weights = false, .panel_store = nullptr});
    const std::vector<Weights>& weights = weights_ ? *weights_ : made;
    if (weights.front().input.inner() != run.inputs)
      fail_input(kX, fmt::format("{} inputs a step", weights.front().input.inner()), x.shape().to_string());
    for (int64_t d = 0; d < directions_; ++d) run_direction(run, weights[static_cast<size_t>(d)], d);
    y.store(call);
    store_state(call, 1, type, run, run.h);
    if (cell_.cell() == Cell::kLstm) store_state(call, 2, type, run, run.c);
  }

  template <class T>
  void read_optional(KernelCall& call, Run<T>& run) const {
    const auto view = [&](size_t i, const Shape& shape) {
      const Tensor* t = call.optional_input(i);
      if (t && t->shape() != shape) fail_input(i, shape.to_string(), t->shape().to_string());
      return FloatView<T>(t, run.pool);
    };
    run.biases = view(kB, {directions_, 2 * gates_ * run.hidden});
    if (cell_.cell() == Cell::kLstm) run.peepholes = view(kPeepholes, {directions_, 3 * run.hidden});
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
    if (cell_.cell() == Cell::kLstm) state(kInitialC, run.c);
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

  // By oneDNN, where it serves and is faster (measured, see docs/decisions/recurrent.md); false if not.
  bool run_primitive(Run<float>& run, const Weights& w, int64_t d) const {
    constexpr int64_t kRows = 8;
    if (!w.primitive || run.peepholes || run.batch < kRows || run.steps == 0 || run.ragged()) return false;
    const int64_t state = run.batch * run.hidden;
    const bool dense = run.y_step == state && run.y_row == run.hidden;
    Tensor results;
    float* y = run.y;
    if (!dense) {
      results = Tensor::allocate(DataType::kFloat, {run.steps, run.batch, run.hidden}, run.pool);
      y = results.mutable_data<float>();
    }
    const onednn::LstmCall call{run.x.data(), run.biases ? run.biases.data() + d * 8 * run.hidden : nullptr,
                                run.h.data() + d * state, run.c.data() + d * state, y};
    if (!w.primitive->run(call, run.steps, run.batch, backwards(d), run.pool)) return false;
    for (int64_t t = 0; !dense && t < run.steps; ++t)
      for (int64_t b = 0; b < run.batch; ++b)
        std::copy_n(y + t * state + b * run.hidden, run.hidden,
                    run.y + t * run.y_step + d * run.y_direction + b * run.y_row);
    return true;
  }

  template <class T>
  void run_direction(Run<T>& run, const Weights& w, int64_t d) const {
    if constexpr (std::is_same_v<T, float>)
      if (run_primitive(run, w, d)) return;
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
    const int64_t products = w.candidate ? 2 * hidden : width;
    Tensor recurrent = Tensor::allocate(kDataTypeOf<T>, {batch, products + hidden}, run.pool);
    T* from_state = recurrent.template mutable_data<T>();
    T* candidate = from_state + batch * products;
    Tensor reset = Tensor::allocate(kDataTypeOf<T>, {batch, hidden}, run.pool);

    T* h = run.h.data() + d * batch * hidden;
    T* c = cell_.cell() == Cell::kLstm ? run.c.data() + d * batch * hidden : nullptr;
    const T* peepholes = run.peepholes ? run.peepholes.data() + d * 3 * hidden : nullptr;
    const bool backwards = this->backwards(d);
    const int64_t at_once = backwards && run.ragged() ? run.steps : steps_at_once<T>(run, width);
    Tensor gates = Tensor::allocate(kDataTypeOf<T>, {at_once * batch, width}, run.pool);
    int64_t first = 0;  // the step whose products `gates` begins with
    for (int64_t s = 0; s < run.steps; ++s) {
      if (s % at_once == 0) {
        const int64_t n = std::min(at_once, run.steps - s);
        first = backwards ? run.steps - s - n : s;
        w.input.run(run.x.data() + first * batch * run.inputs, n * batch, gates.template mutable_data<T>(),
                    pointer(input_bias), run.pool);
      }
      w.recurrent.run(h, batch, from_state, pointer(recurrent_bias), run.pool);
      const auto each_row = [&](auto&& f) {
        parallel_items(batch, 16 * hidden, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            const int64_t length = run.lengths[static_cast<size_t>(b)];
            if (s >= length) continue;
            const int64_t t = backwards ? length - 1 - s : s;
            T* g = gates.template mutable_data<T>() + ((t - first) * batch + b) * width;
            f(b, t,
              CellRow<T>{d, hidden, g, from_state + b * products, w.candidate ? candidate + b * hidden : nullptr,
                         peepholes, h + b * hidden, c ? c + b * hidden : nullptr});
          }
        });
      };
      if (w.candidate) {
        T* r = reset.template mutable_data<T>();
        each_row([&](int64_t b, int64_t, const CellRow<T>& row) { cell_.reset_state(row, r + b * hidden); });
        w.candidate->run(r, batch, candidate, nullptr, run.pool);
      }
      each_row([&](int64_t b, int64_t t, const CellRow<T>& row) {
        cell_.step(row);
        std::copy_n(row.h, hidden, run.y + t * run.y_step + d * run.y_direction + b * run.y_row);
      });
    }
  }

  // Steps whose inputs are multiplied at once: many enough for the weights to be worth reading, and few enough for the
  // products to be in the cache when their steps come.
  template <class T>
  static int64_t steps_at_once(const Run<T>& run, int64_t width) {
    constexpr int64_t kBytes = 1 << 20, kRows = 48;
    const int64_t row_bytes = std::max<int64_t>(width, 1) * static_cast<int64_t>(sizeof(T));
    const int64_t rows = std::max(kRows, kBytes / row_bytes);
    return std::clamp<int64_t>(rows / std::max<int64_t>(run.batch, 1), 1, std::max<int64_t>(run.steps, 1));
  }

  std::string direction_;
  int64_t directions_;
  RecurrentCell cell_;
  int64_t gates_, hidden_;
  bool batch_first_, reset_after_;
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
