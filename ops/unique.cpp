// Unique: distinct elements, or distinct slices along an axis, with where they occur.
#include <algorithm>
#include <numeric>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// The elements of `in` as slices along an axis: element j of slice i is at start(i) + offset(j).
struct Slices {
  int64_t count, outer, inner;

  int64_t size() const { return outer * inner; }
  int64_t at(int64_t slice, int64_t j) const { return (j / inner * count + slice) * inner + j % inner; }
};

// -1, 0 or 1 as a is before, equal to or after b; NaN last and equal to itself.
template <class T>
int compare(const T& a, const T& b) {
  if constexpr (kIsHalf<T>) {
    return compare(static_cast<float>(a), static_cast<float>(b));
  } else {
    if (a < b) return -1;
    if (b < a) return 1;
    if (a == b) return 0;
    return static_cast<int>(a != a) - static_cast<int>(b != b);
  }
}

// Groups of equal slices.
struct Groups {
  std::vector<int64_t> first;  // the first slice of each group
  std::vector<int64_t> group;  // the group of each slice
  std::vector<int64_t> count;  // slices in each group
};

template <class T>
Groups group_slices(const T* x, const Slices& slices, bool sorted) {
  const auto order_of = [&](int64_t a, int64_t b) {
    for (int64_t j = 0; j < slices.size(); ++j)
      if (const int c = compare(x[slices.at(a, j)], x[slices.at(b, j)]); c != 0) return c;
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(slices.count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return order_of(a, b) < 0; });
  Groups groups;
  groups.group.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order_of(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    groups.group[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
    ++groups.count.back();
  }
  if (sorted) return groups;

  // By first occurrence.
  std::vector<size_t> rank(groups.first.size());
  std::iota(rank.begin(), rank.end(), size_t{0});
  std::sort(rank.begin(), rank.end(), [&](size_t a, size_t b) { return groups.first[a] < groups.first[b]; });
  Groups by_occurrence;
  std::vector<int64_t> position(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) {
    position[rank[i]] = static_cast<int64_t>(i);
    by_occurrence.first.push_back(groups.first[rank[i]]);
    by_occurrence.count.push_back(groups.count[rank[i]]);
  }
  for (const int64_t g : groups.group) by_occurrence.group.push_back(position[static_cast<size_t>(g)]);
  return by_occurrence;
}

class UniqueKernel final : public Kernel {
 public:
  explicit UniqueKernel(const KernelContext& context)
      : flat_(!context.node().has("axis")),
        axis_(context.node().attr_int("axis", 0)),
        sorted_(context.node().attr_int("sorted", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor in = flat_ ? call.input(0).reshaped({call.input(0).count()}) : call.input(0);
    const size_t axis = normalize_axis(axis_, in.rank());
    const Slices slices{in.dim(axis), in.shape().count(0, axis), in.shape().count(axis + 1, in.rank())};
    if (in.type() == DataType::kString) {
      finish(call, in, axis, slices, group_slices(in.strings().data(), slices, sorted_));
      return;
    }
    dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
             bool>(in.type(),
                   [&]<class T>() { finish(call, in, axis, slices, group_slices(in.data<T>(), slices, sorted_)); });
  }

 private:
  static void finish(KernelCall& call, const Tensor& in, size_t axis, const Slices& slices, const Groups& groups) {
    Shape shape = in.shape();
    shape[axis] = static_cast<int64_t>(groups.first.size());
    Tensor& out = call.output(0, in.type(), shape);
    dispatch_width(in.type(), [&]<class T>() {
      T* to = mutable_elements<T>(out);
      for (int64_t o = 0; o < slices.outer; ++o)
        for (const int64_t slice : groups.first)
          to = std::copy_n(elements<T>(in) + slices.at(slice, o * slices.inner), slices.inner, to);
    });
    const std::vector<int64_t>* lists[] = {&groups.first, &groups.group, &groups.count};
    for (size_t i = 0; i < 3; ++i)
      if (call.output_count() > i + 1)
        call.set_output(i + 1, Tensor::from<int64_t>({static_cast<int64_t>(lists[i]->size())}, *lists[i]));
  }

  bool flat_;
  int64_t axis_;
  bool sorted_;
};

}  // namespace

std::vector<OpDef> ops_in_unique() { return {{"", "Unique", 11, prepare<UniqueKernel>}}; }

}  // namespace attune
