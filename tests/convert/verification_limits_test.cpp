// What a verification lets pass, by the errors of source and result from a float32 run.
#include <gtest/gtest.h>

#include "convert/verify.h"

namespace attune {
namespace {

Verification of(double difference, double source_error, double result_error,
                std::optional<double> meaning = std::nullopt) {
  Verification v;
  v.compared = 1;
  v.tolerance = 5e-3;
  v.largest_relative = difference;
  v.reference = ReferenceErrors{source_error, result_error, meaning};
  return v;
}

TEST(VerificationLimits, ResultMayErrAsItsSourceDoes) {
  EXPECT_TRUE(of(1e-2, 1e-2, 1.05e-2).passed());
  EXPECT_FALSE(of(1e-2, 1e-2, 1.2e-2).passed());
}

TEST(VerificationLimits, DistanceFromACoarseSourceIsBounded) {
  EXPECT_TRUE(of(1.9e-2, 8e-2, 7e-2).passed());
  EXPECT_FALSE(of(2.1e-2, 8e-2, 7e-2).passed());
}

TEST(VerificationLimits, AResultThatErrsLessIsAsFarAwayAsBothErr) {
  EXPECT_TRUE(of(8.4e-2, 8e-2, 2.5e-2).passed());
  EXPECT_FALSE(of(1.1e-1, 8e-2, 2.5e-2).passed());
}

// Both mean the same: what lies between them is the rounding of both.
TEST(VerificationLimits, AResultThatMeansTheSameIsAsFarAwayAsBothErr) {
  EXPECT_TRUE(of(2.2e-2, 7e-2, 4.8e-2, 5e-6).passed());
  EXPECT_FALSE(of(1.2e-1, 7e-2, 4.8e-2, 5e-6).passed());  // further than both errors
  EXPECT_FALSE(of(2.2e-2, 7e-2, 8e-2, 5e-6).passed());    // errs more than its source
  EXPECT_FALSE(of(2.2e-2, 7e-2, 4.8e-2, 1e-3).passed());  // means something else
}

}  // namespace
}  // namespace attune
