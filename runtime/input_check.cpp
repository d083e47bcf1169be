#include "runtime/input_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace attune {
namespace {

[[noreturn]] void fail(const std::string& input, const std::string& expected, const std::string& found) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("input '{}': expected {}, got {}", input, expected, found));
}

}  // namespace

InputCheck::InputCheck(const std::vector<Plan::Port>& ports) : ports_(ports), sizes_(ports.size()) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].type.kind != ValueType::Kind::kTensor || !ports[i].type.tensor.shape) continue;
    for (const Dim& dim : *ports[i].type.tensor.shape) {
      Size size;
      const std::string symbol = dim.known() ? dim.as_symbol() : std::string();
      if (!symbol.empty()) {
        const auto it = std::find(symbols_.begin(), symbols_.end(), symbol);
        size.symbol = static_cast<int>(it - symbols_.begin());
        if (it == symbols_.end()) symbols_.push_back(symbol);
      } else if (dim.known()) {
        size.fixed = dim.constant();
        if (!size.fixed) size.expression = dim;
        has_expressions_ = has_expressions_ || !size.fixed;
      }
      sizes_[i].push_back(std::move(size));
    }
  }
}

void InputCheck::check_kind(size_t input, const Datum& datum) const {
  const Plan::Port& port = ports_[input];
  const auto kind = datum.kind();
  switch (port.type.kind) {
    case ValueType::Kind::kTensor:
      if (kind != Datum::Kind::kTensor) fail(port.name, "a tensor", "a sequence or an optional");
      if (port.type.tensor.element != DataType::kUndefined && datum.tensor().type() != port.type.tensor.element)
        fail(port.name, std::string(name(port.type.tensor.element)), std::string(name(datum.tensor().type())));
      break;
    case ValueType::Kind::kSequence:
      if (kind != Datum::Kind::kSequence) fail(port.name, "a sequence", "something else");
      break;
    default:
      break;
  }
}

void InputCheck::bind(size_t input, const Shape& shape, std::vector<Bound>& bound) const {
  const bool placeholder = shape.count() == 0 || ports_[input].conditional;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    const Size& size = sizes_[input][axis];
    const auto found = [&] { return fmt::format("{} in shape {}", shape[axis], shape.to_string()); };
    if (size.fixed && *size.fixed != shape[axis] && shape.count() != 0)
      fail(ports_[input].name, fmt::format("size {} on axis {}", *size.fixed, axis), found());
    if (size.symbol < 0 || placeholder) continue;
    Bound& b = bound[static_cast<size_t>(size.symbol)];
    if (b.size < 0) b = {shape[axis], input};
    if (b.size != shape[axis])
      fail(ports_[input].name,
           fmt::format("size {} on axis {} ('{}', as in input '{}')", b.size, axis,
                       symbols_[static_cast<size_t>(size.symbol)], ports_[b.input].name),
           found());
  }
}

void InputCheck::check_expressions(size_t input, const Shape& shape, const std::vector<Bound>& bound) const {
  std::map<std::string, int64_t, std::less<>> sizes;
  for (size_t s = 0; s < symbols_.size(); ++s)
    if (bound[s].size >= 0) sizes[symbols_[s]] = bound[s].size;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    const Size& size = sizes_[input][axis];
    if (!size.expression || shape.count() == 0 || ports_[input].conditional) continue;
    const auto expected = size.expression->evaluate(sizes);
    if (expected && *expected != shape[axis])
      fail(ports_[input].name, fmt::format("size {} on axis {} ({})", *expected, axis, size.expression->to_string()),
           fmt::format("{} in shape {}", shape[axis], shape.to_string()));
  }
}

void InputCheck::check(const std::vector<const Datum*>& data) const {
  std::vector<Bound> bound(symbols_.size());
  const auto has_shape = [&](size_t i) {
    return data[i]->kind() == Datum::Kind::kTensor && ports_[i].type.kind == ValueType::Kind::kTensor &&
           ports_[i].type.tensor.shape;
  };
  for (size_t i = 0; i < data.size(); ++i) {
    if (!data[i]->defined()) continue;
    check_kind(i, *data[i]);
    if (!has_shape(i)) continue;
    const Shape& shape = data[i]->tensor().shape();
    if (shape.rank() != sizes_[i].size())
      fail(ports_[i].name, fmt::format("rank {} {}", sizes_[i].size(), to_string(*ports_[i].type.tensor.shape)),
           fmt::format("shape {}", shape.to_string()));
    bind(i, shape, bound);
  }
  if (!has_expressions_) return;
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i]->defined() && has_shape(i)) check_expressions(i, data[i]->tensor().shape(), bound);
}

}  // namespace attune
