#include "ops/support/attention_run.h"

#include <utility>

#include "ops/support/attention_cache.h"
#include "ops/support/attention_rows.h"
#include "ops/support/attention_rowwise.h"

namespace attune {
namespace {

// Keys or values of one call: appends what is new to the past, gives the present if it is wanted, and sets `segments`
// to what is attended to. `held` keeps the memory.
void resolve_cache(Tensor past, const Tensor& source, size_t output, KernelCall& call, std::array<HeadsView, 2>& segments,
                   Tensor& held) {
  const HeadsView added = segments[0];
  if (!call.wants(output)) {
    if (!past.defined()) return;
    held = with_contiguous_rows(past, call.pool());
    segments = {view_heads(held, held.dim(1), "past"), added};
    return;
  }
  if (past.defined()) {
    held = grow_cache(std::move(past), added, call.pool());
  } else {
    held = view_as_cache(added, source);
    if (added.row_stride != added.width) held = held.to_contiguous(call.pool());
  }
  segments[0] = view_heads(held, held.dim(1), "present");
  call.set_output(output, held);
}

void allocate_results(AttentionProblem& p, KernelCall& call) {
  const int64_t b = p.batch, h = p.heads, t = p.query_length, f = p.value_width;
  Tensor& context = call.output(0, p.type, p.split_query ? Shape{b, h, t, f} : Shape{b, t, h * f});
  p.context = view_heads(context, h, "context");
  if (call.wants(3)) {
    const int64_t rows = p.config->weights == AttentionWeights::kHeadMean ? 1 : h;
    p.weights = call.output(3, p.type, {b, rows, t, p.key_length}).mutable_raw();
  }
  if (call.wants(4)) p.next_position = call.output(4, DataType::kInt64, {b, h}).mutable_data<int64_t>();
}

}  // namespace

Tensor with_contiguous_rows(const Tensor& tensor, BufferPool* pool) {
  const bool rows = tensor.contiguous() || tensor.rank() == 0 || tensor.strides().back() == 1 || tensor.shape().back() <= 1;
  return rows ? tensor : tensor.to_contiguous(pool);
}

void run_attention(const AttentionConfig& config, AttentionOperands& operands, KernelCall& call) {
  AttentionProblem problem = resolve_attention(config, operands);
  Tensor keys, values;
  resolve_cache(std::move(operands.past_key), *operands.key, 1, call, problem.keys, keys);
  resolve_cache(std::move(operands.past_value), *operands.value, 2, call, problem.values, values);
  allocate_results(problem, call);
  attend_rowwise(problem, call);
}

std::string attention_implementation(const AttentionConfig&) { return std::string("rowwise:") + attention_target(); }

}  // namespace attune
