// Exponentials beside a product. Included once for each instruction set.
#if defined(ATTUNE_ATTENTION_EXPONENTIALS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_EXPONENTIALS_INL_H
#undef ATTUNE_ATTENTION_EXPONENTIALS_INL_H
#else
#define ATTUNE_ATTENTION_EXPONENTIALS_INL_H
#endif

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_multiply-inl.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Exponentials of the scores of some rows of a block with all its kKeys keys, and their sums: a vector in each step,
// since beside a product whose operands are in registers most of their work costs no time.
class Exponentials {
 public:
  static constexpr bool kAny = true;

  Exponentials() = default;
  Exponentials(Rows rows, const Scratch& s)
      : scores_(s.scores + rows.first * kKeys),
        from_(s.from + rows.first),
        sums_(s.sums + rows.first * kPanel),
        left_(static_cast<size_t>(rows.count) * kInRow) {}

  HWY_INLINE void step() {
    if (next_ == left_) return;
    const size_t row = next_ / kInRow;
    float *x = scores_ + next_ * kLanes, *sum = sums_ + row * kPanel;
    const Vector e = exp_of_score(hn::Sub(load(x), hn::Set(Floats(), from_[row])));
    hn::StoreU(e, Floats(), x);
    hn::StoreU(hn::Add(load(sum), e), Floats(), sum);
    ++next_;
  }
  HWY_INLINE void finish() {
    while (next_ < left_) step();
  }

 private:
  static constexpr size_t kInRow = kKeys / kLanes;

  float* scores_ = nullptr;
  const float* from_ = nullptr;
  float* sums_ = nullptr;
  size_t next_ = 0, left_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
