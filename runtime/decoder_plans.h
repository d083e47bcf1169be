// The decoders of a folder, ready to run. Internal to the generator.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/attention_taps.h"
#include "runtime/decoder_ports.h"
#include "runtime/plan.h"
#include "runtime/row_inputs.h"
#include "runtime/selection.h"

namespace attune {

struct DecoderModels {
  Model* first = nullptr;      // the decoder, or that of the first step
  Model* with_past = nullptr;  // of the later steps; may be null
  // Only the tokens that a shortlist allows are scored, where a decoder's graph lets that be seen.
  bool shortlist = false;
  // Attentions whose weights are outputs, behind those that the decoder has of its own.
  AttentionTaps first_taps, with_past_taps;
};

// The decoders of a folder, compiled once. Immutable and shared.
class DecoderPlans {
 public:
  // Throws Error(kInvalidModel) where inputs and outputs can't be told apart; and as Plan::compile. Where the encoder's
  // types prove that a model calls two lengths by one name, one of them gets another.
  DecoderPlans(const DecoderModels& models, const DecoderGraph& encoder, const KernelOptions& kernels);

  struct Part {
    std::shared_ptr<const Plan> plan;
    DecoderPorts ports;
    AttentionTaps tapped;
    size_t token_width = 0;  // tokens that it takes at once; 0: any number
    Dim batch;               // the first size of the tokens
    size_t vocabulary = 0;   // if it scores a shortlist: all tokens
    bool hoists = false;     // what the source gives is fixed: computed once
    std::optional<Selection> selection;
    RowInputs rows;  // inputs that are read by an index; of what runs the later steps
    RowUse use_of_input(size_t i) const { return i < rows.uses.size() ? rows.uses[i] : RowUse::kInOrder; }
  };
  const Part& first() const { return first_; }
  // What runs the later steps; `first` too if there is only one.
  const Part& next() const { return next_.plan ? next_ : first_; }
  bool two_parts() const { return next_.plan != nullptr; }
  const std::vector<StateSlot>& states() const { return states_; }
  // Without states each step runs over all tokens again.
  bool recomputes() const { return recomputes_; }
  // How later steps read a state.
  RowUse use_of_state(size_t s) const;

 private:
  void index_rows(Part& part, Graph& decoder) const;
  void compile(Part& part, Model& model, bool hoist, const KernelOptions& kernels);

  std::vector<StateSlot> states_;
  Part first_, next_;
  bool recomputes_ = false;
};

// The axis of a state that counts rows: the one of the size that the tokens have there, else the first.
size_t batch_axis(const ValueType& type, const Dim& batch);

// True if an input stays the same from step to step.
bool is_fixed(const PortBinding& b, const std::vector<StateSlot>& states);

}  // namespace attune
