// ai.onnx::Attention (23 and newer) by the kernel of ai.attune::Attention.
#include <fmt/format.h>

#include <cmath>

#include "ops/kernel.h"
#include "ops/op.h"
#include "ops/support/attention_projection.h"
#include "ops/support/attention_run.h"
#include "ops/support/cast.h"

namespace attune {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };

AttentionConfig read_config(const Node& node) {
  const auto fail = [](std::string_view attribute, std::string_view expected, auto got) {
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("attribute '{}': expected {}, got {}", attribute, expected, got));
  };
  AttentionConfig c;
  c.num_heads = node.attr_int("q_num_heads", 0);
  c.num_kv_heads = node.attr_int("kv_num_heads", 0);
  if (node.has("scale")) c.scale = node.attr_float("scale", 1);
  if (c.scale && (!std::isfinite(*c.scale) || *c.scale < 0)) fail("scale", "a finite number, not negative", *c.scale);
  c.causal = node.attr_int("is_causal", 0) != 0;
  c.softcap = node.attr_float("softcap", 0);
  if (!std::isfinite(c.softcap) || c.softcap < 0) fail("softcap", "a finite number, not negative", c.softcap);
  c.window_left = node.attr_int("left_window_size", -1);
  c.window_right = node.attr_int("right_window_size", -1);
  if (c.window_left < -1) fail("left_window_size", "at least -1", c.window_left);
  if (c.window_right < -1) fail("right_window_size", "at least -1", c.window_right);
  constexpr AttentionWeights kModes[] = {AttentionWeights::kRaw, AttentionWeights::kCapped, AttentionWeights::kBiased,
                                         AttentionWeights::kNormalized};
  const int64_t mode = node.attr_int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail("qk_matmul_output_mode", "0 to 3", mode);
  c.weights = kModes[mode];
  return c;
}

class StandardAttentionKernel : public Kernel {
 public:
  explicit StandardAttentionKernel(const KernelContext& context)
      : config_(read_config(context.node())), pads_short_mask_(context.opset() >= 24) {}

  void run(KernelCall& call) const override {
    BufferPool* pool = call.pool();
    const DataType type = call.input(kQuery).type();
    // Values and masks may be of another type than the query.
    const DataType value_type = call.input(kValue).type();
    const auto as_query = [&](Tensor t) {
      return is_float(t.type()) && t.type() != type ? cast(t.to_contiguous(pool), type, pool) : t;
    };
    const Tensor query = with_contiguous_rows(call.input(kQuery), pool),
                 key = with_contiguous_rows(call.input(kKey), pool);
    const Tensor value = as_query(with_contiguous_rows(call.input(kValue), pool));
    const Tensor mask = call.has(kMask) ? as_query(call.input(kMask)) : Tensor();
    AttentionOperands o;
    o.query = &query;
    o.key = &key;
    o.value = &value;
    o.mask = mask.defined() ? &mask : nullptr;
    o.key_lengths = call.optional_input(kLengths);
    o.queries_end_at_length = o.key_lengths != nullptr;
    o.pads_short_mask = pads_short_mask_;
    if (call.has(kPastKey)) o.past_key = std::move(call.take(kPastKey).tensor());
    if (call.has(kPastValue)) o.past_value = as_query(std::move(call.take(kPastValue).tensor()));
    AttentionOutputs outputs = run_attention(config_, o, AttentionWanted::of(call), pool);
    if (outputs.present_value.defined() && value_type != type)
      outputs.present_value = cast(outputs.present_value.to_contiguous(pool), value_type, pool);
    outputs.store(call);
  }

  std::string implementation() const override { return attention_implementation(config_); }
  bool accepts_strided(size_t input) const override { return input != kMask && input != kLengths; }

 private:
  AttentionConfig config_;
  bool pads_short_mask_;
};

std::unique_ptr<Kernel> prepare(const KernelContext& context) {
  return std::make_unique<StandardAttentionKernel>(context);
}

}  // namespace

std::vector<OpDef> ops_in_standard_attention();
std::vector<OpDef> ops_in_standard_attention() {
  return {{.domain = "", .type = "Attention", .since_version = 23, .prepare = prepare}};
}

}  // namespace attune
