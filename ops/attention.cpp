// ai.attune::Attention.
#include <fmt/format.h>

#include "ops/kernel.h"
#include "ops/op.h"
#include "ops/support/attention_config.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_projection.h"
#include "ops/support/attention_run.h"

namespace attune {
namespace {

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionConfig& config, const KernelContext& context)
      : config_(config),
        projections_(context),
        may_round_(context.options().activations != KernelOptions::Activations::kFloat) {}

  void run(KernelCall& call) const override {
    const auto [query, key, value] = projections_.run(call);
    AttentionOperands o;
    o.query = &query;
    o.key = &key;
    o.value = &value;
    o.mask = call.optional_input(kAttentionMask);
    o.key_lengths = call.optional_input(kAttentionKeyLengths);
    o.w_score = call.optional_input(kAttentionScoreWeight);
    o.b_score = call.optional_input(kAttentionScoreBias);
    o.position = call.optional_input(kAttentionPosition);
    o.query_position = call.optional_input(kAttentionQueryPosition);
    o.draw = call.optional_input(kAttentionDraw);
    o.memory_rows = call.optional_input(kAttentionMemoryRows);
    o.past_rows = call.optional_input(kAttentionPastRows);
    o.may_round = may_round_;
    if (call.has(kAttentionPastKey)) o.past_key = take_tensor(call, kAttentionPastKey);
    if (call.has(kAttentionPastValue)) o.past_value = take_tensor(call, kAttentionPastValue);
    run_attention(config_, o, AttentionWanted::of(call), call.pool()).store(call);
  }

  std::string implementation() const override {
    const std::string products = projections_.implementation(), attention = attention_implementation(config_);
    return products.empty() ? attention : products + " + " + attention;
  }

  bool uses_input(size_t input) const override { return projections_.uses_input(input); }

  bool accepts_strided(size_t input) const override {
    return input == kAttentionQuery || input == kAttentionKey || input == kAttentionValue ||
           input == kAttentionPastKey || input == kAttentionPastValue;
  }

 private:
  static Tensor take_tensor(KernelCall& call, size_t input) {
    call.input(input);  // names the input if it is no tensor
    Datum datum = call.take(input);
    return std::move(datum.tensor());
  }

  AttentionConfig config_;
  AttentionProjections projections_;
  bool may_round_;
};

std::unique_ptr<Kernel> prepare(const KernelContext& context) {
  const AttentionConfig config = read_attention_config(context.node());
  if (context.has_output(kAttentionNextPosition) && config.alignment != AttentionAlignment::kMonotonic)
    throw Error(Error::Kind::kInvalidModel, "output next_position: only alignment 'monotonic' gives it");
  if (context.has_input(kAttentionPastKey) != context.has_input(kAttentionPastValue))
    throw Error(Error::Kind::kInvalidModel, "past_key and past_value: expected both or neither, got one");
  return std::make_unique<AttentionKernel>(config, context);
}

}  // namespace

std::vector<OpDef> ops_in_attention();
std::vector<OpDef> ops_in_attention() {
  return {{.domain = "ai.attune", .type = "Attention", .since_version = 1, .prepare = prepare}};
}

}  // namespace attune
