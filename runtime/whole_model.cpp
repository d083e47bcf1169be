#include "runtime/whole_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace attune {

WholeModel::WholeModel(std::shared_ptr<const Plan> plan, const SessionOptions& options)
    : session_(std::make_unique<Session>(std::move(plan), options)) {
  const auto& outputs = session_->plan().outputs();
  const auto tokens = std::find_if(outputs.begin(), outputs.end(), [](const Plan::Port& p) {
    return p.type.tensor.element == DataType::kInt64 || p.type.tensor.element == DataType::kInt32;
  });
  if (tokens == outputs.end())
    throw Error(Error::Kind::kUnsupported, "a model alone must give token ids, an integer output; it gives none");
  output_ = static_cast<size_t>(tokens - outputs.begin());
}

std::vector<std::vector<int64_t>> WholeModel::run(const SourceBatch& batch, const GenerationOptions& options) {
  std::vector<Datum> inputs = batch.encoder_inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = this->inputs()[i].type.tensor;
    if (!inputs[i].defined() && type.rank() == 0 && type.element == DataType::kInt64)
      inputs[i] = Tensor::scalar<int64_t>(length_limits(options, 0).max_length);
  }
  std::vector<Datum> outputs;
  session_->run(inputs, outputs);
  const Tensor tokens = outputs[output_].tensor().to_contiguous();
  const auto values = tokens.to_int64();
  const bool one_source = tokens.rank() == 1 && batch.sources.size() == 1;
  if (!one_source && (tokens.rank() != 2 || static_cast<size_t>(tokens.dim(0)) != batch.sources.size()))
    throw Error(
        Error::Kind::kInvalidModel,
        fmt::format("output '{}': expected tokens of shape ({} sources, length), got {}",
                    session_->plan().outputs()[output_].name, batch.sources.size(), tokens.shape().to_string()));
  const auto width = static_cast<size_t>(tokens.shape().back());
  std::vector<std::vector<int64_t>> out;
  for (size_t row = 0; row < batch.sources.size(); ++row) {
    std::vector<int64_t> sequence;
    for (size_t t = 0; t < width; ++t) {
      sequence.push_back(values[row * width + t]);
      const auto& eos = options.eos_token_id;
      if (std::find(eos.begin(), eos.end(), sequence.back()) != eos.end()) break;
    }
    out.push_back(std::move(sequence));
  }
  return out;
}

}  // namespace attune
