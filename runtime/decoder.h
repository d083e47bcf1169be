// Steps of an ONNX decoder, whatever its layout: with caches in two files or one, without, or recurrent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/decoder_ports.h"
#include "runtime/search.h"
#include "runtime/session.h"

namespace attune {

struct DecoderModels {
  const Model* first = nullptr;      // the decoder, or that of the first step
  const Model* with_past = nullptr;  // of the later steps; may be null
};

// The decoders of a folder, compiled once. Immutable and shared.
class DecoderPlans {
 public:
  // Throws Error(kInvalidModel) where inputs and outputs can't be told apart; and as Plan::compile.
  DecoderPlans(const DecoderModels& models, const DecoderGraph& encoder, const KernelOptions& kernels);

  struct Part {
    std::shared_ptr<const Plan> plan;
    DecoderPorts ports;
    size_t token_width = 0;  // tokens that it takes at once; 0: any number
    Dim batch;               // the first size of the tokens
    bool hoists = false;     // what the source gives is fixed: computed once
  };
  const Part& first() const { return first_; }
  // What runs the later steps; `first` too if there is only one.
  const Part& next() const { return next_.plan ? next_ : first_; }
  bool two_parts() const { return next_.plan != nullptr; }
  const std::vector<StateSlot>& states() const { return states_; }
  // Without states each step runs over all tokens again.
  bool recomputes() const { return recomputes_; }

 private:
  void compile(Part& part, const Model& model, bool hoist, const KernelOptions& kernels);

  std::vector<StateSlot> states_;
  Part first_, next_;
  bool recomputes_ = false;
};

// What a batch of sources is decoded from.
struct EncodedSources {
  std::vector<Datum> inputs, outputs;  // of the encoder, first axis: sources
  Tensor mask;                         // int64 (sources, length)
  size_t count = 0;
};

// A batch in the middle of decoding. Reusable: start() begins anew with other sources, in the memory of the last.
class Decoder : public StepModel {
 public:
  Decoder(std::shared_ptr<const DecoderPlans> plans, const SessionOptions& options);
  ~Decoder() override;

  void start(EncodedSources sources, bool keep_alignments);
  Scores step(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents) override;

  // Attention of row `row` in step `step`, averaged over heads and over the outputs that give it: one number per
  // position of the source. Empty if the decoder gives none or start() didn't ask.
  std::vector<float> alignment(size_t step, size_t row) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
