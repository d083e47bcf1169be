#include "ops/support/attention_run.h"

#include <algorithm>
#include <utility>

#include "ops/support/attention_blocked.h"
#include "ops/support/attention_cache.h"
#include "ops/support/attention_projection.h"
#include "ops/support/attention_rows.h"
#include "ops/support/attention_rowwise.h"
#include "ops/support/cast.h"

namespace attune {
namespace {

// New keys or values in the type that they are kept in.
Tensor as_memory(const Tensor& added, DataType type, HeadsView& view, BufferPool* pool) {
  if (added.type() == type) return added;
  const Tensor narrow = cast(added.to_contiguous(pool), type, pool);
  view = view_heads(narrow, view.heads, "key or value");
  return narrow;
}

// Keys or values of one call: appends what is new to the past if the present is wanted, and sets `segments` to what is
// attended to. Gives the present, or else what holds the memory of the past.
Tensor resolve_cache(Tensor past, const Tensor& source, bool wanted, const RowIndex& past_rows,
                     std::array<HeadsView, 2>& segments, BufferPool* pool) {
  const HeadsView added = segments[0];
  const auto indexed = [&](const Tensor& cache) {
    HeadsView view = view_heads(cache, cache.dim(1), "past");
    if (!past_rows && view.batch == 1) view.batch_stride = 0;  // stands for all
    view.batch = added.batch;
    view.index = past_rows;
    return view;
  };
  if (past.defined()) past = with_contiguous_rows(past, pool);
  if (!wanted) {
    if (!past.defined()) return {};
    segments = {indexed(past), added};
    return past;
  }
  HeadsView own = added;
  own.batch = source.dim(0);
  Tensor present;
  if (past.defined()) {
    present = grow_cache(std::move(past), own, pool, past_rows);
  } else {
    present = view_as_cache(own, source);
    if (added.row_stride != added.width) present = present.to_contiguous(pool);
  }
  segments[0] = indexed(present);
  return present;
}

void attend(AttentionProblem& p, BufferPool* pool) {
  if (!blocks_serve(p)) {
    join_queries(p);
    attend_rowwise(p, pool);
    return;
  }
  const auto rows = static_cast<size_t>(p.batch * p.heads * p.query_length);
  const BufferRef memory = pool ? pool->acquire(rows) : BufferRef::allocate(rows);
  auto* left_over = reinterpret_cast<uint8_t*>(memory->data());
  std::fill_n(left_over, rows, uint8_t{0});
  attend_blocked(p, left_over, pool);
  if (std::any_of(left_over, left_over + rows, [](uint8_t left) { return left != 0; }))
    attend_rowwise(p, pool, left_over);
}

}  // namespace

void AttentionOutputs::store(KernelCall& call) {
  Tensor* const outputs[] = {&context, &present_key, &present_value, &weights, &next_position};
  for (size_t i = 0; i < std::size(outputs); ++i)
    if (outputs[i]->defined()) call.set_output(i, std::move(*outputs[i]));
}

AttentionOutputs run_attention(const AttentionConfig& config, AttentionOperands& operands,
                               const AttentionWanted& wanted, BufferPool* pool) {
  AttentionProblem p = resolve_attention(config, operands);
  if (p.keys[0].index && (wanted.present_key || wanted.present_value || operands.past_key.defined()))
    throw Error(Error::Kind::kInvalidArgument, "memory_rows: expected neither pasts nor presents beside it");
  AttentionOutputs out;
  const Tensor key = as_memory(*operands.key, p.memory_type, p.keys[0], pool),
               value = as_memory(*operands.value, p.memory_type, p.values[0], pool);
  Tensor keys = resolve_cache(std::move(operands.past_key), key, wanted.present_key, p.past_rows, p.keys, pool);
  Tensor values =
      resolve_cache(std::move(operands.past_value), value, wanted.present_value, p.past_rows, p.values, pool);
  const int64_t b = p.batch, h = p.heads, t = p.query_length, f = p.value_width;
  const Shape context = p.split_query ? Shape{b, h, t, f} : Shape{b, t, h * f};
  if (!wanted.call) out.context = Tensor::allocate(p.type, context, pool);
  p.context = view_heads(wanted.call ? wanted.call->output(0, p.type, context) : out.context, h, "context");
  if (wanted.weights) {
    const int64_t rows = config.weights == AttentionWeights::kHeadMean ? 1 : h;
    out.weights = Tensor::allocate(p.type, {b, rows, t, p.key_length}, pool);
    p.weights = out.weights.mutable_raw();
  }
  if (wanted.next_position) {
    out.next_position = Tensor::allocate(DataType::kInt64, {b, h}, pool);
    p.next_position = out.next_position.mutable_data<int64_t>();
  }
  if (operands.may_round) p.numbers = rounded_numbers(p);
  attend(p, pool);
  if (wanted.present_key) out.present_key = std::move(keys);
  if (wanted.present_value) out.present_value = std::move(values);
  return out;
}

std::string attention_implementation(const AttentionConfig&) {
  return std::string("blocked or rowwise:") + attention_target();
}

}  // namespace attune
