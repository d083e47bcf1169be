// Files and folders of models, converted: attention fused, the result verified and written.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/target.h"
#include "convert/verify.h"
#include "convert/weights.h"
#include "graph/io/writer.h"
#include "passes/pass.h"
#include "passes/report.h"

namespace attune {

struct ConvertOptions {
  Target target = Target::kAttune;
  // Weights of cross-attention as outputs of decoders (see alignment_weights.h); empty: none.
  std::vector<std::string> alignment_weights;
  // Decoders without caches get them (see add_cache.h); the steps after the first go to a file of their own, named
  // decoder_with_past_model.onnx for decoder_model.onnx.
  bool add_cache = false;
  PassOptions passes;
  WeightsOptions weights;
  std::optional<DataType> cache_type;  // of keys and values that decoders keep (see cache_type.h); none: as they are
  bool verify = true;
  VerifyOptions verification;
  WriteOptions writing;
};

struct ConvertedModel {
  std::filesystem::path source, result;
  Report report;
  std::vector<std::string> alignment_weights;  // names of the outputs that were added
  std::optional<std::string> no_cache;         // why a cache that was asked for was not added; empty: it was
  size_t attentions = 0;  // ai.attune Attention nodes in the result (before a target replaces them)
  StoredWeights stored;
  size_t stored_caches = 0;  // inputs and outputs that are kept narrower
  std::optional<Verification> verification;
  // Of the result whose weights are stored narrower; `verification` is then that of the rewriting alone.
  std::optional<Verification> rounded;
  bool passed() const { return (!verification || verification->passed()) && (!rounded || rounded->passed()); }
};

struct Conversion {
  std::vector<ConvertedModel> models;
  std::vector<std::filesystem::path> copied;  // other files of the folder
  bool written = false;                       // false: a model failed its verification, and nothing was written
};

// Fuses the attentions of a model in memory, as convert() does with those of a file; one that has fused attentions
// already is left as it is.
void fuse(Model& model);

// Converts one file, or every .onnx file of a folder, whose other files (configuration, tokenizer) are copied.
// Everything is made under a temporary name in the output's folder and renamed when all of it is there; files of an
// existing folder are replaced, but of a file's conversion only `output` and its data are. `started` is called with
// each model's path before it is converted; may be empty. Throws Error(kIo), Error(kInvalidModel),
// Error(kInvalidArgument) (no model in the folder, output within source, other models in an existing folder).
Conversion convert(const std::filesystem::path& source, const std::filesystem::path& output,
                   const ConvertOptions& options,
                   const std::function<void(const std::filesystem::path&)>& started = {});

}  // namespace attune
