// Models that generate by a loop of their own. Internal to the generator.
#pragma once

#include <memory>
#include <vector>

#include "runtime/session.h"
#include "runtime/source_batch.h"

namespace attune {

class WholeModel {
 public:
  // Throws Error(kUnsupported) unless the first integer output can be token ids (sources, length).
  WholeModel(std::shared_ptr<const Plan> plan, const SessionOptions& options);
  const std::vector<Plan::Port>& inputs() const { return session_->plan().inputs(); }
  // The tokens of each source, up to the end of sequence. A scalar integer input is the largest number of them.
  std::vector<std::vector<int64_t>> run(const SourceBatch& batch, const GenerationOptions& options);

 private:
  std::unique_ptr<Session> session_;
  size_t output_ = 0;
};

}  // namespace attune
