#include "ops/infer/infer.h"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <unordered_set>

#include "ops/infer/contents.h"
#include "ops/infer/graph_inference.h"

namespace attune {
namespace {

// The first N so that no "?M" with M >= N is in use.
int64_t first_fresh(Graph& graph) {
  int64_t first = 0;
  for_each_value(graph, [&](Value& v) {
    if (!v.tensor_type().shape) return;
    for (const Dim& d : *v.tensor_type().shape) {
      if (d.constant()) continue;
      for (const std::string& s : d.symbols()) first = std::max(first, fresh_number(s) + 1);
    }
  });
  return first;
}

}  // namespace

Inference::Inference(const Model& model)
    : opsets_(normalized_opsets(model.opset_imports)), model_(&model), root_(model.graph.get()) {
  run();
}

Inference::Inference(Graph& graph, const std::map<std::string, int64_t>& opset_imports)
    : opsets_(normalized_opsets(opset_imports)), root_(&graph) {
  run();
}

void Inference::run() {
  fresh_ = first_fresh(*root_);
  refill_budget();
  GraphInference inference(*this);
  for (Value* input : root_->inputs()) {
    ValueType type = input->type();
    inference.name_unknown(type);
    input->set_type(std::move(type));
  }
  inference.infer(*root_);
  inference.resolve_all(*root_);
}

void Inference::refill_budget() {
  int64_t nodes = 0;
  root_->for_each_node([&](const Node&) { ++nodes; });
  budget_ = 100'000 + 100 * nodes;
}

const SymbolicTensor* Inference::contents(const Value* value) const {
  if (!value) return nullptr;
  const Tensor* constant = value->constant();
  if (!constant) {
    const auto it = contents_.find(value);
    return it == contents_.end() ? nullptr : &it->second;
  }
  if (!small_count(constant->shape().span())) return nullptr;
  auto [it, added] = constants_.try_emplace(value);
  Constant& known = it->second;
  const bool same = !added && known.tensor.raw() == constant->raw() && known.tensor.type() == constant->type() &&
                    known.tensor.shape() == constant->shape();
  if (!same) known = {*constant, contents_of(*constant)};
  return known.contents ? &*known.contents : nullptr;
}

std::optional<double> Inference::scalar(const Value* value) const {
  const SymbolicTensor* c = contents(value);
  if (!c || c->size() != 1) return std::nullopt;
  if (!c->is_integer()) return c->reals[0];
  const auto integer = c->integers[0].constant();
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<Dims> Inference::integers(const Value* value) const {
  const SymbolicTensor* c = contents(value);
  return c && c->is_integer() ? std::optional(c->integers) : std::nullopt;
}

std::optional<std::vector<int64_t>> Inference::constant_integers(const Value* value) const {
  const auto dims = integers(value);
  return dims ? to_sizes(*dims) : std::nullopt;
}

std::vector<SizeRelation> Inference::relations() {
  const GraphInference inference(*this);
  std::vector<SizeRelation> out;
  std::set<std::tuple<std::string, std::string, bool>> seen;
  for (const SizeRelation& r : relations_) {
    SizeRelation known{inference.resolve(r.a), inference.resolve(r.b), r.strict};
    if (!(known.a == known.b) && seen.emplace(known.a.to_string(), known.b.to_string(), r.strict).second)
      out.push_back(std::move(known));
  }
  return out;
}

const IntegerRange* Inference::needed_integers(const Value* value) const {
  const auto it = needed_integers_.find(value);
  return it == needed_integers_.end() ? nullptr : &it->second;
}

void Inference::update(Node* node) {
  budget_ = std::max<int64_t>(budget_, 100'000);
  GraphInference inference(*this);
  const size_t equalities = equal_.size();
  std::deque<Node*> queue{node};
  std::unordered_set<Node*> queued{node};
  while (!queue.empty()) {
    Node* next = queue.front();
    queue.pop_front();
    queued.erase(next);
    for (const Value* changed : inference.infer(*next))
      for (const Use& use : changed->uses())
        if (queued.insert(use.node).second) queue.push_back(use.node);
  }
  if (equal_.size() != equalities) inference.resolve_all(*root_);
}

}  // namespace attune
