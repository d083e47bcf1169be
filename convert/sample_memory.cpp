#include "convert/sample_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/error.h"
#include "ops/infer/infer.h"

namespace attune {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

using Sizes = std::map<std::string, int64_t, std::less<>>;

double elements(const Dims& dims, const Sizes& sizes) {
  double count = 1;
  for (const Dim& d : dims) {
    if (const auto size = d.evaluate(sizes)) {
      count *= static_cast<double>(std::max<int64_t>(*size, 0));
    } else if (const auto symbols = d.symbols();
               d.known() &&
               std::all_of(symbols.begin(), symbols.end(), [&](const auto& s) { return sizes.contains(s); })) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return count;
}

double constant_bytes(const Graph& graph) {
  double bytes = 0;
  for (const auto& c : graph.constants())
    if (c->constant()) bytes += static_cast<double>(c->constant()->bytes());
  return bytes;
}

}  // namespace

SampleMemory::SampleMemory(const Model& model) {
  Model typed = model;
  typed.graph = model.graph->clone();
  const Inference types(typed);
  const Graph& graph = *typed.graph;
  limit_ = kGiB + 4 * constant_bytes(graph);
  Steps steps;
  number(graph, steps);
  for (const Value* v : graph.inputs()) {
    if (v->type().kind != ValueType::Kind::kTensor || !v->tensor_type().shape) continue;
    input_dims_.emplace(v->name(), *v->tensor_type().shape);
    add(*v, 0, step_count_);
  }
  add_lifetimes(graph, steps);
}

void SampleMemory::number(const Graph& graph, Steps& steps) {
  for (const Node* n : graph.topological_order()) {
    for (const Graph* body : n->subgraphs()) number(*body, steps);
    steps[n] = step_count_++;
  }
}

void SampleMemory::add_lifetimes(const Graph& graph, const Steps& steps) {
  const auto order = graph.topological_order();
  const auto& outputs = graph.outputs();
  for (const Node* n : order) {
    for (const Graph* body : n->subgraphs()) add_lifetimes(*body, steps);
    const size_t begin = steps.at(n);
    for (size_t i = 0; i < n->output_count(); ++i) {
      const Value* v = n->output(i);
      if (!v) continue;
      size_t end = begin;
      for (const Use& use : v->uses()) end = std::max(end, steps.at(use.node));
      if (std::find(outputs.begin(), outputs.end(), v) != outputs.end()) end = steps.at(order.back());
      add(*v, begin, end);
    }
  }
}

void SampleMemory::add(const Value& value, size_t begin, size_t end) {
  if (value.type().kind != ValueType::Kind::kTensor || !value.tensor_type().shape) return;
  lifetimes_.push_back({*value.tensor_type().shape, element_bits(value.element_type()) / 8.0, begin, end});
}

double SampleMemory::peak(const std::vector<SampleInput>& inputs, const SampleChoice& choice) const {
  Sizes sizes = choice.sizes;
  for (const SampleInput& input : inputs) {
    const auto declared = input_dims_.find(input.name);
    if (declared == input_dims_.end()) continue;
    for (size_t i = 0; i < std::min(input.dims.size(), declared->second.size()); ++i)
      if (const auto size = input.dims[i].evaluate(choice.sizes); size && !declared->second[i].as_symbol().empty())
        sizes[declared->second[i].as_symbol()] = *size;
  }
  std::vector<double> change(step_count_ + 2);
  for (const Lifetime& l : lifetimes_) {
    const double bytes = elements(l.dims, sizes) * l.element_bytes;
    if (bytes == std::numeric_limits<double>::infinity()) return bytes;
    change[l.begin] += bytes;
    change[l.end + 1] -= bytes;
  }
  double held = 0, most = 0;
  for (const double c : change) most = std::max(most, held += c);
  return most;
}

void SampleMemory::check(const std::vector<SampleInput>& inputs, const SampleChoice& choice) const {
  const double bytes = peak(inputs, choice);
  if (bytes > limit_)
    throw Error(Error::Kind::kLimit,
                fmt::format("a run on made-up inputs holds {:.1f} GiB at once, more than the {:.1f} GiB that a "
                            "verification may take (--no-verify converts without)",
                            bytes / kGiB, limit_ / kGiB));
}

}  // namespace attune
