// Steps of an ONNX decoder, whatever its layout: with caches in two files or one, without, or recurrent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/attention_taps.h"
#include "runtime/decoder_ports.h"
#include "runtime/row_inputs.h"
#include "runtime/search.h"
#include "runtime/selection.h"
#include "runtime/session.h"
#include "runtime/token_selector.h"

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

// What a batch of sources is decoded from.
struct EncodedSources {
  std::vector<Datum> inputs, outputs;  // of the encoder, first axis: sources
  Tensor mask;                         // int64 (sources, length)
  size_t count = 0;
  std::vector<size_t> places;  // of the sources among the caller's
  // Tokens that each source's output may have, ascending; empty: all for all.
  std::vector<std::vector<int64_t>> allowed;
};

// What a decoder keeps of its cross-attention while it runs.
struct AlignmentRequest {
  bool mean = false;    // the mean over the selected heads
  bool heads = false;   // each head by itself, of the layers that give them
  HeadSelection which;  // what `mean` is taken of
};

// The weights of one head in one step, one for each position of the source.
struct HeadWeights {
  size_t layer = 0, head = 0;
  std::vector<float> weights;
};

// A batch in the middle of decoding. Reusable: start() begins anew with other sources, in the memory of the last.
class Decoder : public StepModel, public TokenSelector {
 public:
  Decoder(std::shared_ptr<const DecoderPlans> plans, const SessionOptions& options);
  ~Decoder() override;

  void start(EncodedSources sources, AlignmentRequest alignments = {});
  Scores step(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents) override;
  size_t selects() const override;
  std::span<const int64_t> select(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents,
                                  const std::vector<int64_t>& excluded) override;

  // True if the decoder, or what it was tapped for, gives weights of the source's positions.
  bool gives_alignments() const;
  // Attention of row `row` in step `step`: one number per position of the source. Empty if start() didn't ask.
  std::vector<float> alignment(size_t step, size_t row) const;
  std::vector<HeadWeights> head_alignments(size_t step, size_t row) const;
  // Called with every tapped attention, self-attention too.
  void observe(AttentionObserver observer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
