#include "ops/support/attention_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace attune {
namespace {

[[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view got) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: expected {}, got {}", what, expected, got));
}

void expect_shape(const Tensor& tensor, std::string_view what, const Shape& shape, std::string_view letters) {
  if (!(tensor.shape() == shape))
    fail(what, fmt::format("shape {} = {}", letters, shape.to_string()), tensor.shape().to_string());
}

void expect_element(const Tensor& tensor, std::string_view what, DataType type) {
  if (tensor.type() != type) fail(what, name(type), name(tensor.type()));
}

// The type that keys and values may have, by what there is of them.
DataType memory_type(DataType query, const Tensor& memory) {
  const bool narrow = is_half(memory.type());
  return query == DataType::kFloat && narrow ? memory.type() : query;
}

// Throws unless the operand has three or four dimensions.
void expect_states(const Tensor& tensor, std::string_view what) {
  if (tensor.rank() != 3 && tensor.rank() != 4)
    fail(what, "rank 3 or 4", fmt::format("shape {}", tensor.shape().to_string()));
}

// The number of heads: as given, or read off a 4-D operand, or `fallback`.
int64_t head_count(int64_t given, std::initializer_list<const Tensor*> operands, int64_t fallback) {
  if (given > 0) return given;
  for (const Tensor* t : operands)
    if (t && t->rank() == 4) return t->dim(1);
  return fallback;
}

MaskView resolve_mask(const Tensor& mask, const AttentionProblem& p, bool pads) {
  if (mask.type() != DataType::kBool && mask.type() != p.type) {
    const bool integer = is_integer(mask.type());
    fail("mask", fmt::format("bool or {}", name(p.type)),
         fmt::format("{}{}", name(mask.type()),
                     integer ? " (an integer mask is ambiguous: compare or cast it first)" : ""));
  }
  if (mask.rank() > 4) fail("mask", "at most rank 4", fmt::format("shape {}", mask.shape().to_string()));
  const std::array<int64_t, 4> target{p.batch, p.heads, p.query_length, p.key_length};
  MaskView view{mask.raw(), mask.type() == DataType::kBool, {}, p.key_length};
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 4 - mask.rank();) {
    const int64_t size = mask.dim(axis - (4 - mask.rank()));
    const bool last = axis == 3;
    if (size == target[axis]) {
      view.strides[axis] = stride;
    } else if (last && pads && size < target[axis]) {
      view.strides[axis] = 1;
      view.length = size;
    } else if (size != 1) {
      fail("mask", fmt::format("a shape that broadcasts to (B,H,Tq,Tk) = ({})", fmt::join(target, ",")),
           mask.shape().to_string());
    }
    stride *= size;
  }
  return view;
}

const int64_t* resolve_integers(const Tensor* tensor, std::string_view what, const Shape& shape,
                                std::string_view letters) {
  if (!tensor) return nullptr;
  expect_element(*tensor, what, DataType::kInt64);
  expect_shape(*tensor, what, shape, letters);
  return tensor->data<int64_t>();
}

void resolve_score(AttentionProblem& p, const AttentionOperands& o) {
  const auto& c = *p.config;
  const bool additive = c.score == AttentionScore::kAdditive, general = c.score == AttentionScore::kGeneral;
  if (additive || general) {
    if (!o.w_score) fail("w_score", "a tensor beside score 'additive' or 'general'", "none");
    expect_element(*o.w_score, "w_score", p.type);
    if (additive) expect_shape(*o.w_score, "w_score", {p.heads, p.query_width}, "(H,E)");
    if (general) expect_shape(*o.w_score, "w_score", {p.heads, p.query_width, p.key_width}, "(H,E,Ek)");
    p.w_score = o.w_score->raw();
  } else if (o.w_score) {
    fail("w_score", "none beside score 'scaled_dot' or 'dot'", "one");
  }
  if (!general && p.key_width != p.query_width)
    fail("key", fmt::format("heads as wide as the query's ({})", p.query_width), std::to_string(p.key_width));
  if (o.b_score) {
    expect_element(*o.b_score, "b_score", p.type);
    expect_shape(*o.b_score, "b_score", {p.heads}, "(H)");
    p.b_score = o.b_score->raw();
  }
  if (c.score == AttentionScore::kScaledDot)
    p.scale = c.scale             ? static_cast<double>(*c.scale)
              : p.query_width > 0 ? 1 / std::sqrt(static_cast<double>(p.query_width))
                                  : 1;
}

// The largest number such that the rows are runs of so many that lie in one row of memory.
int64_t common_run(const RowIndex& index, int64_t rows) {
  int64_t group = 0;
  for (int64_t first = 0; first < rows;) {
    int64_t last = first + 1;
    while (last < rows && index.at(last, 0) == index.at(first, 0)) ++last;
    group = std::gcd(group, last - first);
    first = last;
  }
  return std::max<int64_t>(group, 1);
}

// The index of B rows in memory for `memory_rows`; none where `tensor` has no elements.
RowIndex resolve_rows(const Tensor* tensor, std::string_view what, int64_t batch, int64_t memory_rows) {
  if (!tensor || tensor->count() == 0) return {};
  expect_element(*tensor, what, DataType::kInt32);
  if (tensor->rank() != 2 || tensor->dim(0) != batch) fail(what, "shape (B,1+columns)", tensor->shape().to_string());
  const auto rows = tensor->values<int32_t>();
  const auto outside = [&](int32_t row) { return row < 0 || row >= memory_rows; };
  if (std::any_of(rows.begin(), rows.end(), outside))
    fail(what, fmt::format("rows from 0 to {}", memory_rows - 1), "one that isn't");
  return {rows.data(), tensor->dim(1) - 1};
}

// The batch of the result. Operands of one row stand for as many as there are of others; which rows of memory a runtime
// gives, it gives for each query.
int64_t common_batch(const AttentionProblem& p, const AttentionOperands& o) {
  if (p.query.batch != 1 || o.memory_rows || o.past_rows) return p.query.batch;
  int64_t batch = 1;
  const auto rows = [](const Tensor* t, size_t rank) { return t && t->rank() == rank ? t->dim(0) : 1; };
  for (const int64_t other : {p.keys[0].batch, p.values[0].batch, rows(o.mask, 4), rows(o.key_lengths, 1),
                              rows(o.query_position, 1), rows(o.position, 2)})
    if (other != 1) batch = other;
  return batch;
}

void repeat_batch(HeadsView& view, int64_t batch) {
  if (view.batch != 1 || batch == 1) return;
  view.batch = batch;
  view.batch_stride = 0;
}

// The rows that are read must be there, those that are written each be written once.
void check_past_rows(const AttentionProblem& p, int64_t memory_rows) {
  if (!p.past_rows) return;
  if (p.past_rows.columns > p.past_length)
    fail("past_rows", fmt::format("at most {} positions", p.past_length), std::to_string(p.past_rows.columns));
  std::vector<int64_t> own;
  for (int64_t b = 0; b < p.batch; ++b) {
    own.push_back(p.past_rows.at(b, p.past_length));
    for (int64_t t = 0; t <= std::min(p.past_rows.columns, p.past_length - 1); ++t)
      if (p.past_rows.at(b, t) >= memory_rows)
        fail("past_rows", fmt::format("rows from 0 to {}", memory_rows - 1), std::to_string(p.past_rows.at(b, t)));
  }
  std::sort(own.begin(), own.end());
  if (std::adjacent_find(own.begin(), own.end()) != own.end())
    fail("past_rows", "a row of its own for each of the batch", "one for two of them");
}

void resolve_past(AttentionProblem& p, const AttentionOperands& o) {
  if (o.past_key.defined() != o.past_value.defined())
    fail("past_key and past_value", "both or neither", o.past_key.defined() ? "past_key alone" : "past_value alone");
  if (!o.past_key.defined()) return;
  expect_element(o.past_key, "past_key", p.memory_type);
  expect_element(o.past_value, "past_value", p.memory_type);
  if (o.past_key.rank() != 4) fail("past_key", "shape (B,G,Tp,E)", o.past_key.shape().to_string());
  p.past_length = o.past_key.dim(2);
  // Rows for what is new may lie beyond those that there are.
  p.past_rows = resolve_rows(o.past_rows, "past_rows", p.batch, std::numeric_limits<int32_t>::max());
  const auto rows = [&](const Tensor& past, const Tensor& added) { return p.past_rows ? past.dim(0) : added.dim(0); };
  expect_shape(o.past_key, "past_key", {rows(o.past_key, *o.key), p.kv_heads, p.past_length, p.key_width},
               "(B,G,Tp,E)");
  expect_shape(o.past_value, "past_value", {rows(o.past_key, *o.value), p.kv_heads, p.past_length, p.value_width},
               "(B,G,Tp,F)");
  check_past_rows(p, o.past_key.dim(0));
}

}  // namespace

HeadsView view_heads(const Tensor& tensor, int64_t heads, std::string_view what) {
  HeadsView v;
  v.data = tensor.raw();
  v.batch = tensor.dim(0);
  v.heads = heads;
  if (tensor.rank() == 3) {
    const int64_t wide = tensor.dim(2);
    if (heads <= 0 || wide % heads != 0)
      fail(what, fmt::format("a last dimension that {} heads divide", heads), std::to_string(wide));
    v.length = tensor.dim(1);
    v.width = wide / heads;
    v.head_stride = v.width;
    v.row_stride = tensor.contiguous() ? wide : tensor.strides()[1];
    v.batch_stride = tensor.contiguous() ? wide * v.length : tensor.strides()[0];
    return v;
  }
  if (tensor.dim(1) != heads)
    fail(what, fmt::format("{} heads", heads), fmt::format("shape {}", tensor.shape().to_string()));
  v.length = tensor.dim(2);
  v.width = tensor.dim(3);
  if (tensor.contiguous()) {
    v.row_stride = v.width;
    v.head_stride = v.length * v.width;
    v.batch_stride = v.heads * v.head_stride;
  } else {
    v.row_stride = tensor.strides()[2];
    v.head_stride = tensor.strides()[1];
    v.batch_stride = tensor.strides()[0];
  }
  return v;
}

AttentionProblem resolve_attention(const AttentionConfig& config, const AttentionOperands& o) {
  AttentionProblem p;
  p.config = &config;
  p.type = o.query->type();
  expect_states(*o.query, "query");
  expect_states(*o.key, "key");
  expect_states(*o.value, "value");
  p.memory_type = memory_type(p.type, o.past_key.defined() ? o.past_key : *o.key);
  // New keys and values beside a past are narrowed later.
  const DataType added = o.past_key.defined() && o.key->type() == p.type ? p.type : p.memory_type;
  expect_element(*o.key, "key", added);
  expect_element(*o.value, "value", added);
  const Tensor* past_key = o.past_key.defined() ? &o.past_key : nullptr;
  const Tensor* past_value = o.past_value.defined() ? &o.past_value : nullptr;
  p.heads = head_count(config.num_heads, {o.query}, 1);
  p.kv_heads = head_count(config.num_kv_heads, {o.key, o.value, past_key, past_value}, p.heads);
  if (p.kv_heads == 0 || p.heads % p.kv_heads != 0)
    fail("num_kv_heads", fmt::format("a divisor of num_heads ({})", p.heads), std::to_string(p.kv_heads));
  p.query = view_heads(*o.query, p.heads, "query");
  p.keys[0] = view_heads(*o.key, p.kv_heads, "key");
  p.values[0] = view_heads(*o.value, p.kv_heads, "value");
  p.split_query = o.query->rank() == 4;
  p.batch = common_batch(p, o);
  repeat_batch(p.query, p.batch);
  p.query_length = p.query.length;
  p.query_width = p.query.width;
  p.key_width = p.keys[0].width;
  p.value_width = p.values[0].width;
  const RowIndex memory = resolve_rows(o.memory_rows, "memory_rows", p.batch, p.keys[0].batch);
  const int64_t batch = memory ? p.keys[0].batch : p.batch;
  for (const auto& [view, what] : {std::pair(&p.keys[0], "key"), std::pair(&p.values[0], "value")}) {
    if (!memory) repeat_batch(*view, batch);
    if (view->batch != batch) fail(what, fmt::format("batch {}", batch), std::to_string(view->batch));
    view->batch = p.batch;
    view->index = memory;
  }
  if (p.values[0].length != p.keys[0].length)
    fail("value", fmt::format("the key's length ({})", p.keys[0].length), std::to_string(p.values[0].length));
  resolve_past(p, o);
  p.key_length = p.past_length + p.keys[0].length;
  resolve_score(p, o);
  if (o.mask) p.mask = resolve_mask(*o.mask, p, o.pads_short_mask);
  p.key_lengths = resolve_integers(o.key_lengths, "key_lengths", {p.batch}, "(B)");
  p.query_position = resolve_integers(o.query_position, "query_position", {p.batch}, "(B)");
  p.queries_end_at_length = o.queries_end_at_length && p.key_lengths;
  p.position = resolve_integers(o.position, "position", {p.batch, p.heads}, "(B,H)");
  if (p.position)
    for (int64_t i = 0; i < p.batch * p.heads; ++i)
      if (p.position[i] < 0) fail("position", "no negative number", std::to_string(p.position[i]));
  if (o.draw) {
    expect_element(*o.draw, "draw", DataType::kInt64);
    if (o.draw->count() != 1) fail("draw", "a scalar", fmt::format("shape {}", o.draw->shape().to_string()));
    p.draw = static_cast<uint32_t>(*o.draw->data<int64_t>());
  }
  return p;
}

void join_queries(AttentionProblem& p) {
  const RowIndex index = p.keys[0].index;
  if (!index || index.columns > 0) return;
  const auto& c = *p.config;
  const int64_t group = common_run(index, p.batch);
  // The order of weights is kept only where there is one row of them for each query.
  const bool same_order = !p.weights || p.heads == 1 || c.weights == AttentionWeights::kHeadMean;
  const bool by_row = p.key_lengths || p.query_position || p.position;
  if (group == 1 || p.query_length != 1 || p.past_length > 0 || by_row || !same_order || c.causal ||
      c.window_left >= 0 || c.window_right >= 0 || c.alignment != AttentionAlignment::kSoft)
    return;
  p.batch /= group;
  p.query_length = group;
  for (HeadsView* v : {&p.query, &p.context}) {
    v->batch /= group;
    v->length = group;
    v->row_stride = v->batch_stride;
    v->batch_stride *= group;
  }
  for (HeadsView* v : {&p.keys[0], &p.values[0]}) {
    v->batch /= group;
    v->index_step = group;
  }
  p.mask.strides[2] = p.mask.strides[0];
  p.mask.strides[0] *= group;
}

KeyRange visible_keys(const AttentionProblem& p, int64_t b, int64_t t) {
  KeyRange range{0, p.key_length};
  const auto& c = *p.config;
  if (p.key_lengths) range.last = std::clamp<int64_t>(p.key_lengths[b], 0, p.key_length);
  if (p.mask.data) range.last = std::min(range.last, p.mask.length);
  if (c.causal || c.window_left >= 0 || c.window_right >= 0) {
    const int64_t at = p.query_start(b) + t;
    if (c.causal) range.last = std::min(range.last, std::max<int64_t>(at, -1) + 1);
    // Compared without sums that could overflow: a window may be as wide as the type allows.
    if (c.window_right >= 0 && c.window_right < p.key_length - at)
      range.last = std::min(range.last, at + c.window_right + 1);
    if (c.window_left >= 0 && at > c.window_left) range.first = at - c.window_left;
  }
  range.last = std::max<int64_t>(range.last, 0);
  range.first = std::clamp<int64_t>(range.first, 0, range.last);
  return range;
}

}  // namespace attune
