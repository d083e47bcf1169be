// A coarse model's float32 meaning, run beside it. Internal to verification.
#pragma once

#include <optional>

#include "convert/verify.h"

namespace attune {

class ReferenceRun {
 public:
  // `result` must outlive it. Nothing is run where the source isn't coarse, or quantises in a way that has no
  // reference.
  ReferenceRun(const Model& source, const Model& result, const VerifyOptions& options);

  // Of one case: the inputs of source and result, and what they gave. `far`: these are further apart than the
  // tolerance, so that it counts whether they mean the same.
  struct Case {
    const TensorMap &source_inputs, &source;
    const TensorMap &result_inputs, &result;
    bool far = false;
  };
  void add(const Case& c);

  // Nothing where the source itself leaves the numbers' range.
  std::optional<ReferenceErrors> errors() const;

 private:
  void compare_meaning(const TensorMap& exact, const TensorMap& inputs);

  const Model& result_;
  const SessionOptions how_;
  std::optional<Session> session_, of_result_;
  ReferenceErrors errors_;
  bool compared_ = false;
};

}  // namespace attune
