// What the attentions of a model do on real inputs: which heads show a known fault, what the outputs leave out or say
// again, and how much of the time is attention's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/attention_taps.h"
#include "runtime/generation_options.h"
#include "runtime/picture/alignment.h"
#include "runtime/session.h"

namespace attune {

enum class HeadSymptom {
  kUniform,       // entropy near its maximum: every position gets nearly the same
  kConcentrated,  // one weight near one, all others below the precision of the arithmetic
  kPadding,       // weight on padding
  kDead           // adds next to nothing to what its layer gives
};

// Bounds above (dead: below) which a head has the symptom.
struct DiagnosisBounds {
  double uniform = 0.95;        // mean entropy over its maximum
  double concentrated = 0.5;    // share of queries
  double padding = 0.01;        // mean weight
  double dead = 0.01;           // contribution
  double never_attended = 0.1;  // of the share that each position would get if all got the same
};

// Means over all queries of real positions (padding doesn't ask); those that see one position only say nothing.
struct HeadDiagnosis {
  bool encoder = false;
  AttentionKind kind = AttentionKind::kSelf;
  size_t layer = 0, head = 0;
  size_t queries = 0;
  double entropy = 0;             // over the logarithm of the number of positions: 0 one position, 1 uniform
  double concentrated = 0;        // share of queries whose other weights are all below the precision of their type
  double largest = 0;             // the largest weight
  std::optional<double> padding;  // weight on padding, where there was any
  // Root mean square of what the head adds to the output of its attention (its context through the output projection,
  // or the context if the projection isn't a constant), over that of the mean head of the layer.
  double contribution = 0;
  // What it looks at. Self-attention: weight on the position itself, the one before and the one after. Cross: the
  // correlation of the attended position with the output's position. Both: weight on the position that gets most.
  double self = 0, previous = 0, next = 0, diagonal = 0, one_position = 0;
  std::vector<HeadSymptom> symptoms;
};

// The same sequence of tokens several times, one directly after the other.
struct Repeat {
  size_t at = 0, length = 0, times = 0;  // place in the new tokens
};

struct OutputDiagnosis {
  std::vector<int64_t> tokens;         // new ones
  std::vector<double> coverage;        // per real source position: mean over heads, summed over the output
  std::vector<size_t> never_attended;  // source positions
  std::optional<Repeat> repeat;        // the longest: three times at least
};

// Attention proper (scores, softmax, weighted sum; caches) against everything else (projections too).
struct Cost {
  double attention_ms = 0, other_ms = 0;
  double attention_bytes = 0, other_bytes = 0;  // read and written
  double score_bytes = 0;                       // of the matrix of weights, if it is written out
};
struct RegimePoint {
  int64_t source = 0, target = 0;  // target: tokens so far, 0 for the encoder
  Cost cost;
};
struct Regime {
  std::vector<RegimePoint> encoder, step;  // measured; `step` is one token of one source
  // Source length from which attention takes more time than the rest of the encoder; from the fitted growth, so it may
  // lie beyond what was measured. Nothing if it never does.
  std::optional<double> encoder_crossing;
  // Of a step: per source length measured the number of tokens from which attention takes more than the rest.
  struct StepCrossing {
    int64_t source;
    std::optional<double> target;
  };
  std::vector<StepCrossing> step_crossings;
  std::string stopped;  // why longer sources weren't measured; empty if all were
};

struct Diagnosis {
  std::vector<HeadDiagnosis> heads;  // encoder, then the decoder's self- and cross-attention, by layer
  std::vector<OutputDiagnosis> outputs;
  std::optional<Regime> regime;
};

struct DiagnosisOptions {
  DiagnosisBounds bounds;
  std::optional<int64_t> max_new_tokens;
  size_t batch = 8;  // sources that are run together at most; fewer if they are long
  bool regime = true;
  int64_t longest_source = 512, longest_target = 64;  // of the regime
  SessionOptions session;
  // As GeneratorOptions::prepare; attentions that aren't fused into ai.attune Attention aren't seen.
  std::function<void(Model&)> prepare;
};

// Generates (greedily) from `inputs`, as Generator::generate() takes them. Throws as Generator, and
// Error(kUnsupported) if the model has no ai.attune Attention.
Diagnosis diagnose(const std::filesystem::path& folder, const TensorMap& inputs, const DiagnosisOptions& options = {});

std::string_view name(HeadSymptom symptom);
// "encoder layer 2", "decoder layer 0", "cross layer 5".
std::string layer_name(const HeadDiagnosis& head);

// For people: the layers and heads with symptoms, the outputs with faults, the regime. `all_heads`: a line for each.
std::string diagnosis_text(const Diagnosis& diagnosis, bool all_heads);
std::string diagnosis_json(const Diagnosis& diagnosis);
// Rows: layers; columns: each number for each head, from white (0) to dark (1; a contribution of 2).
AlignmentPicture diagnosis_picture(const Diagnosis& diagnosis);

}  // namespace attune
