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

// Exponentials of the scores of some rows of a block with all its kKeys keys, added to their sums, which s.largest
// keeps as they were: a vector in each step, since beside a product whose operands are in registers most of their work
// costs no time.
class Exponentials {
 public:
  static constexpr bool kAny = true;
  static constexpr int64_t kSteps = kKeys / static_cast<int64_t>(kLanes);  // of a row

  // A row in progress, in registers.
  class Row {
   public:
    Row(float* scores, float from) : scores_(scores), from_(hn::Set(Floats(), from)), sum_(hn::Zero(Floats())) {}
    HWY_INLINE void step() {
      const Vector e = exp2_of_score(hn::Sub(load(scores_), from_));
      hn::StoreU(e, Floats(), scores_);
      sum_ = hn::Add(sum_, e);
      scores_ += kLanes;
    }
    Vector sum() const { return sum_; }

   private:
    float* scores_;
    Vector from_, sum_;
  };

  Exponentials() = default;
  Exponentials(Rows rows, const Scratch& s)
      : scores_(s.scores + rows.first * kKeys),
        from_(s.from + rows.first),
        sums_(s.sums + rows.first * kPanel),
        before_(s.largest + rows.first * kPanel),
        left_(rows.count) {}

  bool left() const { return left_ > 0; }
  HWY_INLINE Row start_row() const { return Row(scores_, *from_); }
  HWY_INLINE void end_row(const Row& row) {
    const Vector before = load(sums_);
    hn::StoreU(before, Floats(), before_);
    hn::StoreU(hn::Add(before, row.sum()), Floats(), sums_);
    largest_ = hn::Max(largest_, row.sum());
    scores_ += kKeys;
    ++from_;
    sums_ += kPanel;
    before_ += kPanel;
    --left_;
  }
  HWY_INLINE void finish() {
    while (left()) {
      Row row = start_row();
      for (int64_t i = 0; i < kSteps; ++i) row.step();
      end_row(row);
    }
  }
  // True if no lane of a row added more.
  bool sums_are_within(float most) const { return hn::AllTrue(Floats(), hn::Le(largest_, hn::Set(Floats(), most))); }

 private:
  float* scores_ = nullptr;
  const float* from_ = nullptr;
  float *sums_ = nullptr, *before_ = nullptr;
  Vector largest_ = hn::Zero(Floats());
  int64_t left_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
