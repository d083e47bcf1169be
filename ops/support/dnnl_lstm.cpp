#include "ops/support/dnnl_lstm.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "ops/support/dnnl_internal.h"
#include "ops/support/lru_cache.h"

namespace attune::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using dnnl::memory;

constexpr int64_t kGates = 4;
// Where oneDNN's gates i, f, c, o lie in ONNX's i, o, f, c.
constexpr std::array<int64_t, kGates> kOrder{0, 2, 3, 1};

memory::desc float_desc(memory::dims dims, Tag tag) { return {std::move(dims), memory::data_type::f32, tag}; }

struct Primitive {
  dnnl::lstm_forward::primitive_desc desc;
  dnnl::lstm_forward primitive;
};

// Weights in the forms that primitives asked for. All sizes of input usually ask for the same.
class Weights {
 public:
  // (4 hidden, inner), gates in ONNX's order.
  explicit Weights(Tensor values)
      : values_(std::move(values)), hidden_(values_.dim(0) / kGates), inner_(values_.dim(1)) {}
  int64_t inner() const { return inner_; }

  memory in_form(const memory::desc& desc) {
    const std::scoped_lock lock(mutex_);
    const auto found =
        std::find_if(forms_.begin(), forms_.end(), [&](const memory& m) { return m.get_desc() == desc; });
    if (found != forms_.end()) return *found;
    std::vector<float> ordered(static_cast<size_t>(kGates * hidden_ * inner_));
    for (size_t g = 0; g < kOrder.size(); ++g)
      std::copy_n(values_.data<float>() + kOrder[g] * hidden_ * inner_, hidden_ * inner_,
                  ordered.data() + static_cast<int64_t>(g) * hidden_ * inner_);
    memory plain = wrap(float_desc({1, 1, inner_, kGates, hidden_}, Tag::ldgoi), ordered.data());
    memory form(desc, engine());
    dnnl::reorder(plain, form).execute(stream(), plain, form);
    stream().wait();
    return forms_.emplace_back(std::move(form));
  }

 private:
  Tensor values_;
  int64_t hidden_, inner_;
  std::mutex mutex_;
  std::vector<memory> forms_;
};

}  // namespace

struct Lstm::Impl {
  Impl(Tensor w, Tensor r)
      : input(std::move(w)), recurrent(std::move(r)), inputs(input.inner()), hidden(recurrent.inner()) {}
  Weights input, recurrent;
  int64_t inputs, hidden;
  LruCache<LstmSizes, Primitive> primitives;

  memory::desc state_desc(int64_t batch) const { return float_desc({1, 1, batch, hidden}, Tag::ldnc); }
  memory::desc bias_desc() const { return float_desc({1, 1, kGates, hidden}, Tag::ldgo); }

  std::shared_ptr<const Primitive> make(const LstmSizes& s) const {
    using Direction = dnnl::rnn_direction;
    const memory::desc state = state_desc(s.batch);
    const dnnl::lstm_forward::primitive_desc desc(
        engine(), dnnl::prop_kind::forward_inference,
        s.backwards ? Direction::unidirectional_right2left : Direction::unidirectional_left2right,
        float_desc({s.steps, s.batch, inputs}, Tag::tnc), state, state,
        float_desc({1, 1, inputs, kGates, hidden}, Tag::any), float_desc({1, 1, hidden, kGates, hidden}, Tag::any),
        bias_desc(), float_desc({s.steps, s.batch, hidden}, Tag::tnc), state, state, base_attributes(),
        /*allow_empty=*/true);
    if (!desc || is_reference(desc.impl_info_str())) return nullptr;
    return std::make_shared<const Primitive>(Primitive{desc, dnnl::lstm_forward(desc)});
  }
};

Lstm::Lstm(Tensor input, Tensor recurrent) : impl_(std::make_unique<Impl>(std::move(input), std::move(recurrent))) {}
Lstm::~Lstm() = default;

bool Lstm::run(const LstmCall& call, int64_t steps, int64_t batch, bool backwards, BufferPool* pool) const {
  return guarded("lstm", [&] {
    const LstmSizes sizes{steps, batch, backwards, threads()};
    const auto p = impl_->primitives.get(sizes, [&] { return impl_->make(sizes); });
    if (!p) return false;
    const int64_t hidden = impl_->hidden, state = batch * hidden;
    std::vector<float> bias(static_cast<size_t>(kGates * hidden));
    for (size_t g = 0; call.bias && g < kOrder.size(); ++g)
      for (int64_t i = 0; i < hidden; ++i) {
        const float* at = call.bias + kOrder[g] * hidden + i;
        bias[g * static_cast<size_t>(hidden) + static_cast<size_t>(i)] = at[0] + at[kGates * hidden];
      }
    const BufferRef last = scratch(static_cast<size_t>(2 * state) * sizeof(float), pool);
    auto* last_h = reinterpret_cast<float*>(last->data());
    const memory::desc scratch_desc = p->desc.scratchpad_desc(), states = impl_->state_desc(batch);
    const BufferRef work = scratch(scratch_desc.get_size(), pool);
    p->primitive.execute(stream(), {{DNNL_ARG_SRC_LAYER, wrap(p->desc.src_layer_desc(), call.x)},
                                    {DNNL_ARG_SRC_ITER, wrap(states, call.h)},
                                    {DNNL_ARG_SRC_ITER_C, wrap(states, call.c)},
                                    {DNNL_ARG_WEIGHTS_LAYER, impl_->input.in_form(p->desc.weights_layer_desc())},
                                    {DNNL_ARG_WEIGHTS_ITER, impl_->recurrent.in_form(p->desc.weights_iter_desc())},
                                    {DNNL_ARG_BIAS, wrap(impl_->bias_desc(), bias.data())},
                                    {DNNL_ARG_DST_LAYER, wrap(p->desc.dst_layer_desc(), call.y)},
                                    {DNNL_ARG_DST_ITER, wrap(states, last_h)},
                                    {DNNL_ARG_DST_ITER_C, wrap(states, last_h + state)},
                                    {DNNL_ARG_SCRATCHPAD, wrap(scratch_desc, address(work))}});
    stream().wait();
    std::copy_n(last_h, state, call.h);
    std::copy_n(last_h + state, state, call.c);
    return true;
  });
}

std::string Lstm::implementation() const {
  const auto last = impl_->primitives.newest();
  return last ? last->desc.impl_info_str() : std::string();
}

}  // namespace attune::onednn
