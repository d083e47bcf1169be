#include "runtime/decoder_plans.h"

#include <algorithm>
#include <string>

#include "runtime/shortlist.h"

namespace attune {
namespace {

struct Interface {
  Interface(const Model& model, size_t own_outputs) {
    for (const Value* v : model.graph->inputs())
      inputs.push_back({std::string(v->name()), v->type(), v->default_value() != nullptr});
    for (const Value* v : model.graph->outputs().first(own_outputs))
      outputs.push_back({std::string(v->name()), v->type()});
  }
  std::vector<Plan::Port> inputs, outputs;
};

// The axis on which a type has the symbol `name`.
std::optional<int> axis_of(const ValueType& type, const std::string& name) {
  for (int i = 0; i < type.tensor.rank(); ++i)
    if (type.tensor.dim(i).known() && type.tensor.dim(i).as_symbol() == name) return i;
  return std::nullopt;
}

// Exporters call the length of the encoder's input (in its mask) and that of its output by one name in decoders, also
// where convolutions make the output shorter. Where the encoder's types say so, the input's length gets another name.
void untie_lengths(Graph& decoder, const DecoderPorts& ports, const DecoderGraph& encoder) {
  const auto memory_size = [&](const std::string& symbol) {
    for (size_t m = 0; m < ports.inputs.size(); ++m)
      if (ports.inputs[m].role == PortRole::kMemory)
        if (const auto axis = axis_of(decoder.inputs()[m]->type(), symbol))
          return encoder.outputs[ports.inputs[m].index].type.tensor.dim(*axis);
    return Dim();
  };
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    if (ports.inputs[i].role != PortRole::kSource) continue;
    Value& input = *decoder.inputs()[i];
    const TensorType& source = encoder.inputs[ports.inputs[i].index].type.tensor;
    ValueType type = input.type();
    if (!type.tensor.shape || type.tensor.rank() != source.rank()) continue;
    for (int axis = 0; axis < type.tensor.rank(); ++axis) {
      Dim& dim = (*type.tensor.shape)[static_cast<size_t>(axis)];
      const std::string symbol = dim.known() ? dim.as_symbol() : std::string();
      const Dim memory = symbol.empty() ? Dim() : memory_size(symbol);
      if (memory.known() && source.dim(axis).known() && !(memory == source.dim(axis)))
        dim = Dim::symbol(symbol + "_of_" + std::string(input.name()));
    }
    input.set_type(std::move(type));
  }
}

}  // namespace

size_t batch_axis(const ValueType& type, const Dim& batch) {
  for (int i = 0; i < type.tensor.rank(); ++i)
    if (type.tensor.dim(i) == batch) return static_cast<size_t>(i);
  return 0;
}

bool is_fixed(const PortBinding& b, const std::vector<StateSlot>& states) {
  switch (b.role) {
    case PortRole::kMemory:
    case PortRole::kSource:
    case PortRole::kSourceMask:
    case PortRole::kSourceLengths:
    case PortRole::kShortlist:
      return true;
    case PortRole::kState:
      return !states[b.index].updated;
    default:
      return false;
  }
}

DecoderPlans::DecoderPlans(const DecoderModels& models, const DecoderGraph& encoder, const KernelOptions& kernels) {
  const auto assign = [&](Part& part, Model& model, const AttentionTaps& tapped) {
    const Interface ports(model, model.graph->outputs().size() - tapped.added_outputs);
    part.ports = assign_ports({ports.inputs, ports.outputs}, encoder, states_);
    untie_lengths(*model.graph, part.ports, encoder);
    part.tapped = tapped;
    if (!models.shortlist && kernels.pack_weights) part.selection = add_selection(model, part.ports.logits);
    if (part.selection)
      part.ports.inputs.insert(part.ports.inputs.end(), {{PortRole::kSelection}, {PortRole::kSelectionOffsets}});
    const auto shortened = models.shortlist ? shorten_logits(*model.graph, part.ports.logits) : std::nullopt;
    if (!shortened) return;
    part.vocabulary = shortened->vocabulary;
    part.ports.inputs.push_back({PortRole::kShortlist});
  };
  assign(first_, *models.first, models.first_taps);
  if (models.with_past) assign(next_, *models.with_past, models.with_past_taps);
  if (models.with_past) {
    index_rows(next_, *models.with_past->graph);
  } else {
    index_rows(first_, *models.first->graph);
  }
  compile(first_, *models.first, !models.with_past, kernels);
  if (models.with_past) compile(next_, *models.with_past, true, kernels);
  const auto& inputs = first_.ports.inputs;
  recomputes_ = !models.with_past && std::none_of(inputs.begin(), inputs.end(),
                                                  [](const PortBinding& b) { return b.role == PortRole::kState; });
}

// Lets what runs the later steps read the memory and caches by an index of rows.
void DecoderPlans::index_rows(Part& part, Graph& decoder) const {
  std::vector<bool> candidates;
  for (const PortBinding& b : part.ports.inputs)
    candidates.push_back(b.role == PortRole::kMemory ||
                         (b.role == PortRole::kState && !states_[b.index].encoder_output));
  part.rows = add_row_inputs(decoder, candidates);
  for (size_t i = candidates.size(); i < decoder.inputs().size(); ++i)
    part.ports.inputs.push_back(
        {decoder.inputs()[i]->name() == part.rows.source_rows ? PortRole::kSourceRows : PortRole::kPastRows});
}

RowUse DecoderPlans::use_of_state(size_t s) const {
  const auto& inputs = next().ports.inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == PortRole::kState && inputs[i].index == s) return next().use_of_input(i);
  return RowUse::kInOrder;
}

void DecoderPlans::compile(Part& part, Model& model, bool hoist, const KernelOptions& kernels) {
  part.ports.state_outputs.resize(states_.size());
  PlanOptions options;
  options.kernels = kernels;
  for (size_t i = 0; i < part.ports.inputs.size(); ++i) {
    const Value& input = *model.graph->inputs()[i];
    if (hoist && is_fixed(part.ports.inputs[i], states_)) options.fixed_inputs.emplace(input.name());
    if (part.ports.inputs[i].role != PortRole::kTokens) continue;
    const TensorType& type = input.tensor_type();
    part.token_width = type.rank() == 1 || (type.rank() == 2 && type.dim(1).is(1)) ? 1 : 0;
    part.batch = type.dim(0);
  }
  part.hoists = hoist;
  part.plan = Plan::compile(model, options);
}

}  // namespace attune
