// attune generate --audio.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/alignment_output.h"
#include "runtime/generator.h"

namespace attune::cli {

struct SpeechInput {
  std::vector<std::string> files;  // --audio
  std::string language, task, prompt, subtitles;
  std::vector<float> temperatures;
  std::optional<float> compression_ratio_threshold, logprob_threshold, no_speech_threshold;
  bool timestamps = false, word_timestamps = false, condition_on_previous_text = false, prompt_all_segments = false;

  void add_options(CLI::App& command);
  bool given() const { return !files.empty(); }
  // Throws Error(kInvalidArgument) for options that only a transcriber takes.
  void check_without_transcriber() const;

 private:
  std::vector<const CLI::Option*> of_transcribers_;
};

struct SpeechOutput {
  bool json = false, stream = false;
  bool alignments = false;  // with json: the weights of cross-attention
  const AlignmentOutput& alignment;
};

// True if the folder's features are Whisper's, which are transcribed in windows.
bool is_transcriber(const std::string& folder);

// Features of the files as inputs of an encoder that takes each sound as a whole.
TensorMap read_speech(const std::string& folder, const std::vector<std::string>& files);

// `adjust` changes the folder's generation options. Gives the exit code.
int transcribe(const std::string& folder, const SpeechInput& input, GeneratorOptions options,
               const std::function<void(GenerationOptions&)>& adjust, const SpeechOutput& output);

}  // namespace attune::cli
