// NonMaxSuppression: the best boxes of each batch entry and class that don't overlap a better one.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

// Intersection over union.
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const float both = height * width, all = a.area() + b.area() - both;
  return all > 0 ? both / all : 0;
}

class NonMaxSuppressionKernel final : public Kernel {
 public:
  explicit NonMaxSuppressionKernel(const KernelContext& context)
      : centre_(context.node().attr_int("center_point_box", 0) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& boxes = call.input(0);
    const Tensor& scores = call.input(1);
    expect_rank(boxes, 0, 3);
    expect_rank(scores, 1, 3);
    if (boxes.dim(2) != 4) fail_input(0, "four numbers a box", boxes.shape().to_string());
    const int64_t batch = boxes.dim(0), count = boxes.dim(1), classes = scores.dim(1);
    if (scores.dim(0) != batch || scores.dim(2) != count)
      fail_input(1, fmt::format("({},classes,{})", batch, count), scores.shape().to_string());
    const Limits limits = {
        call.has(2) ? read_integer(call, 2) : 0, call.has(3) ? static_cast<float>(read_number(call.input(3), 3)) : 0,
        call.has(4) ? static_cast<float>(read_number(call.input(4), 4)) : -std::numeric_limits<float>::infinity()};
    std::vector<int64_t> selected;
    for (int64_t b = 0; b < batch; ++b) {
      const std::vector<Box> of_entry = corners(boxes.data<float>() + b * count * 4, count);
      for (int64_t c = 0; c < classes; ++c) {
        const float* row = scores.data<float>() + (b * classes + c) * count;
        for (const int64_t box : select(of_entry, row, limits)) selected.insert(selected.end(), {b, c, box});
      }
    }
    const auto n = static_cast<int64_t>(selected.size()) / 3;
    call.set_output(0, Tensor::from<int64_t>({n, 3}, selected));
  }

 private:
  struct Limits {
    int64_t count;  // boxes a class
    float overlap;  // more is suppressed
    float score;    // only better ones count
  };

  std::vector<Box> corners(const float* x, int64_t count) const {
    std::vector<Box> boxes;
    for (int64_t i = 0; i < count; ++i, x += 4) {
      if (centre_) {
        boxes.push_back({x[1] - x[3] / 2, x[0] - x[2] / 2, x[1] + x[3] / 2, x[0] + x[2] / 2});
      } else {  // any two opposite corners
        boxes.push_back({std::min(x[0], x[2]), std::min(x[1], x[3]), std::max(x[0], x[2]), std::max(x[1], x[3])});
      }
    }
    return boxes;
  }

  static std::vector<int64_t> select(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
    std::vector<int64_t> order;
    for (size_t i = 0; i < boxes.size(); ++i)
      if (scores[i] > limits.score) order.push_back(static_cast<int64_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    std::vector<int64_t> kept;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(kept.size()) >= limits.count) break;
      const Box& box = boxes[static_cast<size_t>(i)];
      if (std::none_of(kept.begin(), kept.end(),
                       [&](int64_t k) { return overlap(boxes[static_cast<size_t>(k)], box) > limits.overlap; }))
        kept.push_back(i);
    }
    return kept;
  }

  bool centre_;
};

}  // namespace

std::vector<OpDef> ops_in_non_max_suppression() {
  return {{"", "NonMaxSuppression", 10, prepare<NonMaxSuppressionKernel>}};
}

}  // namespace attune
