// com.microsoft's RotaryEmbedding, alone and inside of attentions.
#include <limits>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

// Every second number of the last axis, from `first` to `end`.
Value* every_second(BodyBuilder& b, Value* x, int64_t first, Value* end) {
  return b.op("Slice", {x, b.ints({first}), end, b.ints({-1}), b.ints({2})});
}

}  // namespace

Value* rotate(BodyBuilder& b, Value* x, Value* positions, const RotaryCaches& caches) {
  const auto slice = [&](Value* begin, Value* end) { return b.op("Slice", {x, begin, end, b.ints({-1})}); };
  const auto angles = [&](Value* cache) { return b.unsqueeze(b.op("Gather", {cache, positions}), {2}); };
  Value *cos = angles(caches.cos), *sin = angles(caches.sin);  // (B, T, 1, R/2)
  Value *none = b.ints({0}), *half = b.as_list(b.dim(caches.cos, 1)), *whole = b.add(half, half);
  Value* left = caches.interleaved ? every_second(b, x, 0, whole) : slice(none, half);
  Value* right = caches.interleaved ? every_second(b, x, 1, whole) : slice(half, whole);
  std::vector<Value*> turned{b.sub(b.mul(left, cos), b.mul(right, sin)), b.add(b.mul(left, sin), b.mul(right, cos))};
  if (caches.interleaved) {
    Value* pairs = b.concat({b.unsqueeze(turned[0], {4}), b.unsqueeze(turned[1], {4})}, 4);
    turned = {b.op("Reshape", {pairs, b.concat({b.ints({0, 0, 0}), whole}, 0)})};
  }
  turned.push_back(slice(whole, b.ints({std::numeric_limits<int64_t>::max()})));
  return b.concat(std::move(turned), -1);
}

std::vector<Value*> build_rotary_embedding_form(FormBuilder& b) {
  b.expect_rank(0, {3, 4}, "input");
  b.expect_rank(1, {1, 2}, "position_ids");
  const bool heads_first = b.rank(0) == 4;
  Value* x = b.in(0);
  if (heads_first) {
    x = b.transpose(x, {0, 2, 1, 3});
  } else {
    // The caches tell the width of a head, unless the number of heads does.
    const int64_t heads = b.node().attr_int("num_heads", 0);
    Value* width = heads > 0 ? b.div(b.dim(x, 2), b.integer(heads)) : b.mul(b.dim(b.in(2), 1), b.integer(2));
    Value* count = heads > 0 ? b.integer(heads) : b.div(b.dim(x, 2), width);
    x = b.op("Reshape", {x, b.concat({b.ints({0, 0}), b.as_list(count), b.as_list(width)}, 0)});
  }
  Value* positions = b.in(1);
  if (b.rank(1) == 1) {  // of the first row; the others follow it
    Value* shape = b.op("Slice", {b.shape(x), b.ints({0}), b.ints({2})});
    positions = b.op("Expand", {b.add(positions, b.range(b.dim(x, 1))), shape});
  }
  x = rotate(b, x, positions, {b.in(2), b.in(3), b.node().attr_int("interleaved", 0) != 0});
  x = heads_first ? b.transpose(x, {0, 2, 1, 3}) : b.op("Reshape", {x, b.shape(b.in(0))});
  return {x};
}

}  // namespace attune
