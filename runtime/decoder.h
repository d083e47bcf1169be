// Steps of an ONNX decoder, whatever its layout: with caches in two files or one, without, or recurrent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/attention_taps.h"
#include "runtime/decoder_plans.h"
#include "runtime/search.h"
#include "runtime/session.h"
#include "runtime/token_selector.h"

namespace attune {

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
  BestTokens select(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents,
                    const TokenRequest& request) override;

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
