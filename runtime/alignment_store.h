// The weights of a decoder's cross-attention, kept step by step. Internal to the generator.
#pragma once

#include <vector>

#include "runtime/decoder.h"

namespace attune {

class AlignmentStore {
 public:
  void start(AlignmentRequest request, size_t positions);
  bool active() const { return request_.mean || request_.heads; }
  // Takes the weights of the last token of each row out of a step's outputs: the tapped ones, or, if there are none,
  // outputs of the decoder itself whose last axis counts the positions.
  // Throws Error(kInvalidArgument) if a head that was selected isn't there, Error(kUnsupported) for weights over other
  // positions than the source's, or of other layers than in the first step.
  void add(const DecoderPlans::Part& part, const std::vector<Datum>& outputs, size_t rows);

  // Of one step and row; empty if there is none.
  std::vector<float> mean(size_t step, size_t row) const;
  std::vector<HeadWeights> heads(size_t step, size_t row) const;

 private:
  struct Layer {
    size_t layer = 0, heads = 0;
    bool averaged = false;       // one "head" that is a mean
    std::vector<float> weights;  // rows x heads x positions
  };
  struct Step {
    size_t rows = 0, layer_count = 0;
    std::vector<Layer> layers;
  };

  void add_layer(Step& step, const Tensor& weights, size_t layer, bool averaged) const;
  static bool same_layers(const Step& a, const Step& b);
  void check_heads(const Step& step) const;

  AlignmentRequest request_;
  size_t positions_ = 0;
  std::vector<Step> steps_;
};

}  // namespace attune
