#include "convert/reference_run.h"

#include <algorithm>
#include <cmath>

#include "convert/difference.h"
#include "convert/float_reference.h"
#include "graph/error.h"

namespace attune {
namespace {

TensorMap widened(const TensorMap& inputs) {
  TensorMap out = inputs;
  for (auto& [name, value] : out) {
    if (value.kind() == Datum::Kind::kTensor) value = Datum(attune::widened(value.tensor()));
  }
  return out;
}

}  // namespace

ReferenceRun::ReferenceRun(const Model& source, const Model& result, const VerifyOptions& options)
    : result_(result), how_{options.threads, nullptr} {
  if (options.tolerance || default_tolerance(source) <= kFloatTolerance) return;
  const auto model = float_reference(source);
  if (model) session_.emplace(Plan::compile(*model), how_);
}

void ReferenceRun::add(const Case& c) {
  if (!session_) return;
  const TensorMap exact = session_->run(widened(c.source_inputs));
  for (const auto& item : exact) {
    const std::string& output = item.first;
    const Datum& value = item.second;
    if (value.kind() != Datum::Kind::kTensor || !is_float(value.tensor().type())) continue;
    const std::vector<double> wanted = value.tensor().to_double();
    const auto error = [&](const TensorMap& map) {
      Difference d;
      compare_values(wanted, map.at(output).tensor().to_double(), d);
      return d.relative();
    };
    errors_.source = std::max(errors_.source, error(c.source));
    errors_.result = std::max(errors_.result, error(c.result));
    compared_ = true;
  }
  if (c.far) compare_meaning(exact, c.result_inputs);
}

void ReferenceRun::compare_meaning(const TensorMap& exact, const TensorMap& inputs) {
  double largest = errors_.meaning.value_or(0);
  try {
    if (!of_result_) {
      const auto model = float_reference(result_);
      if (!model) return;
      of_result_.emplace(Plan::compile(*model), how_);
    }
    const TensorMap found = of_result_->run(widened(inputs));
    for (const auto& [output, value] : exact)
      largest = std::max(largest, compare_data(output, value, found.at(output)).relative());
  } catch (const Error&) {  // it has no float32 run that gives the same outputs
    largest = INFINITY;
  }
  errors_.meaning = largest;
}

std::optional<ReferenceErrors> ReferenceRun::errors() const {
  return compared_ && std::isfinite(errors_.source) ? std::optional(errors_) : std::nullopt;
}

}  // namespace attune
