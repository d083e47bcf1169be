// Generation from a folder of ONNX files: encode the sources, decode, search.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/attention_taps.h"
#include "runtime/generation_options.h"
#include "runtime/search.h"
#include "runtime/session.h"

namespace attune {

struct GeneratorOptions {
  SessionOptions session;
  KernelOptions kernels;
  // The weights of cross-attention become outputs of the decoder, where it has ai.attune Attention nodes; needed for
  // GenerationOptions::output_alignments, unless the files give them anyway.
  bool alignments = false;
  // Layers and heads that alignments are the mean of; empty: alignment_heads of the folder's configuration, or all.
  HeadSelection alignment_heads;
  // Keeps the weights of every head of every layer too: Generation::heads.
  bool each_head = false;
  // Is shown the weights and contexts of every ai.attune Attention, of the encoder too; may be empty.
  AttentionObserver observer;
  // Keep packed weights in a file in the folder, or use those that are there (see panel_cache.h).
  bool cache = false;
  // Called with each model of the folder before it is compiled (say, to fuse its attentions); may be empty.
  std::function<void(Model&)> prepare;
};

// The weights of one head of cross-attention, as Generation::alignment.
struct HeadAlignment {
  size_t layer = 0, head = 0;
  std::vector<std::vector<float>> weights;
};

struct Generation {
  std::vector<int64_t> tokens;  // prompt (decoder_start_token_id ...), new tokens, the end of sequence if it came
  size_t prompt_length = 0;
  std::optional<float> score;  // beam search: as Hugging Face's sequences_scores
  // If asked for: per new token a weight for each position of the source, following the tokens of this hypothesis.
  std::vector<std::vector<float>> alignment;
  std::vector<HeadAlignment> heads;  // if the generator was loaded with each_head
  // If asked for (output_log_probabilities): per new token its log-probability after all rules, at temperature 1.
  std::vector<float> log_probabilities;
};

// Time of the last generate(), for benchmarks.
struct GenerationTiming {
  double encode_ms = 0, decode_ms = 0;
  size_t steps = 0;
  size_t encoder_events = 0;  // of SessionOptions::profile: the first ones, which are the encoder's (last batch)
};

class Generator {
 public:
  // Loads a folder (see folder.h) with generation_config.json; if the folder has no configuration, its parent's
  // counts. Throws as Plan::compile, and Error(kInvalidModel) where states can't be told.
  static Generator load(const std::filesystem::path& folder, const GeneratorOptions& options = {});
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  // Another generator over the same plans and weights, to be used by another thread. It isn't profiled.
  Generator replica() const;

  // `inputs`: those of the encoder by name, first axis: sources. Token ids (int64 (sources, length)) may be called
  // input_ids and their mask attention_mask whatever the encoder calls them; a mask that is left out is 1, but 0 for
  // padding if pad_token_id is no end of sequence. Gives num_return_sequences generations for each source, in order.
  std::vector<std::vector<Generation>> generate(const TensorMap& inputs, const GenerationOptions& options,
                                                const TokenCallback& callback = {});

  // The decoder's scores (logits) of the token that follows each source's prompt. Prompts are equally long.
  std::vector<std::vector<float>> next_token_scores(const TensorMap& inputs,
                                                    const std::vector<std::vector<int64_t>>& prompts);

  // Sources after the encoder, for several calls of this generator. Cheap to copy.
  class Encoded {
   private:
    friend class Generator;
    struct Batches;
    explicit Encoded(std::shared_ptr<const Batches> batches) : batches_(std::move(batches)) {}
    std::shared_ptr<const Batches> batches_;
  };
  // Throws Error(kUnsupported) for a model that is one graph.
  Encoded encode(const TensorMap& inputs);
  std::vector<std::vector<Generation>> generate(const Encoded& sources, const GenerationOptions& options,
                                                const TokenCallback& callback = {});
  std::vector<std::vector<float>> next_token_scores(const Encoded& sources,
                                                    const std::vector<std::vector<int64_t>>& prompts);

  // The options of a folder's generation_config.json, as load() reads them.
  static GenerationOptions options_of(const std::filesystem::path& folder);
  const GenerationOptions& defaults() const;
  const GenerationTiming& timing() const;

 private:
  struct Impl;
  explicit Generator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// `generations` as one matrix of token ids as Hugging Face returns it: one row for each returned sequence, filled up
// to the longest with pad_token_id (beam search: with the end of sequence if pad_token_id is 0 or missing).
std::vector<std::vector<int64_t>> padded_sequences(const std::vector<std::vector<Generation>>& generations,
                                                   const GenerationOptions& options);

}  // namespace attune
