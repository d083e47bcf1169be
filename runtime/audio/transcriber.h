// Speech to text with Whisper models.
//
// Windows, prompts, timestamps and segments are those of Hugging Face's WhisperForConditionalGeneration.generate()
// (transformers 4.57), token for token.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/audio/audio_file.h"
#include "runtime/generator.h"

namespace attune {

struct TranscriptionOptions {
  // A code ("de") or an English name ("german"). Empty: as the model's configuration says, else what the model hears in
  // the first window.
  std::string language;
  std::string task;         // "transcribe", or "translate" (into English); empty: as the configuration says
  bool timestamps = false;  // sound longer than the model's window (30 s) always has them
  // Needs a generator that was loaded with `alignments` and `each_head`, and alignment_heads in the configuration.
  bool word_timestamps = false;
  bool condition_on_previous_text = false;  // the text of earlier windows is the prompt of the next
  // As if this had been said before: names and spellings are taken from it. With condition_on_previous_text it comes
  // before the text of the earlier windows, and goes as that grows; or it stays in front of every window.
  std::string prompt;
  bool prompt_all_segments = false;  // needs condition_on_previous_text
  // A window is transcribed at the first temperature (0: greedy or beams; above: sampling), and anew at the next one
  // while its text repeats itself (zlib makes its tokens smaller by more than compression_ratio_threshold) or is
  // improbable (mean log-probability of the tokens below logprob_threshold).
  std::vector<float> temperatures{0.0F};
  std::optional<float> compression_ratio_threshold, logprob_threshold;
  // An improbable text where the model hears no speech with more than this probability is none: the window is passed
  // over.
  std::optional<float> no_speech_threshold;  // needs logprob_threshold
  GenerationOptions generation;              // start from Transcriber::defaults()
};

struct TranscriptWord {
  double start = 0, end = 0;  // seconds
  std::string text;           // with the blank before it
};

struct TranscriptSegment {
  double start = 0, end = 0;    // seconds
  std::vector<int64_t> tokens;  // text and timestamps
  std::string text;
  std::vector<double> token_times;    // with word_timestamps: when each token ends, in seconds
  std::vector<TranscriptWord> words;  // with word_timestamps
  // With generation.output_alignments: per token its attention to steps of kAlignmentStep seconds, the first of which
  // begins at alignment_start.
  std::vector<std::vector<float>> alignment;
  double alignment_start = 0, alignment_end = 0;
};
constexpr double kAlignmentStep = 0.02;

struct Transcript {
  std::string language;         // a code; empty if the model knows only one
  std::vector<int64_t> prompt;  // that each window began with
  std::vector<TranscriptSegment> segments;
  std::string text() const;  // of all segments
};

// Called with each segment as soon as it is settled, and the seconds of sound that are done by then.
using SegmentCallback = std::function<void(const TranscriptSegment& segment, double seconds)>;

class Transcriber {
 public:
  // A folder as for Generator::load, with preprocessor_config.json and a tokenizer. Throws as that, and Error(kIo),
  // Error(kUnsupported) where it isn't a Whisper model's.
  static Transcriber load(const std::filesystem::path& folder, const GeneratorOptions& options = {});
  ~Transcriber();
  Transcriber(Transcriber&&) noexcept;
  Transcriber& operator=(Transcriber&&) noexcept;

  // Audio of any rate and length. Throws Error(kInvalidArgument) for a language or task that the model doesn't know.
  Transcript transcribe(const Audio& audio, const TranscriptionOptions& options, const SegmentCallback& callback = {});

  TranscriptionOptions defaults() const;
  std::string piece(int64_t token) const;  // as people read it

 private:
  struct Impl;
  explicit Transcriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
