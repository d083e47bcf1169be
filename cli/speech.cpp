#include "cli/speech.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "convert/convert.h"
#include "graph/io/output_file.h"
#include "runtime/audio/features.h"
#include "runtime/audio/subtitles.h"
#include "runtime/audio/transcriber.h"

namespace attune::cli {
namespace {

using nlohmann::json;

json transcript_json(const Transcript& t, const std::string& file) {
  json segments = json::array();
  for (const TranscriptSegment& s : t.segments) {
    json segment{{"start", s.start}, {"end", s.end}, {"text", s.text}, {"tokens", s.tokens}};
    if (!s.token_times.empty()) {
      segment["token_times"] = s.token_times;
      segment["words"] = json::array();
      for (const TranscriptWord& w : s.words)
        segment["words"].push_back({{"start", w.start}, {"end", w.end}, {"text", w.text}});
    }
    if (!s.alignment.empty()) {
      segment["alignment"] = s.alignment;
      segment["alignment_start"] = s.alignment_start;
    }
    segments.push_back(std::move(segment));
  }
  json out{{"file", file}, {"text", t.text()}, {"segments", std::move(segments)}};
  if (!t.language.empty()) out["language"] = t.language;
  return out;
}

// Words alone have no line for the segment, whose times nobody asked for.
void print_segment(const TranscriptSegment& s, bool words_alone) {
  if (!words_alone) print_line(fmt::format("[{} --> {}] {}", clock_text(s.start), clock_text(s.end), s.text));
  for (const TranscriptWord& w : s.words)
    print_line(
        fmt::format("{}[{} --> {}] {}", words_alone ? "" : "    ", clock_text(w.start), clock_text(w.end), w.text));
}

std::string without_blank(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// Rows: tokens; columns: steps of time, so many that they can be seen.
AlignmentPicture picture_of(const Transcript& t, const Transcriber& transcriber, const std::string& title) {
  constexpr size_t kMostColumns = 120;
  double end = 0;
  for (const TranscriptSegment& s : t.segments) end = std::max(end, s.alignment_end);
  const auto steps = static_cast<size_t>(std::ceil(end / kAlignmentStep - 1e-6));
  const size_t width = std::max<size_t>(1, (steps + kMostColumns - 1) / kMostColumns);
  AlignmentPicture p;
  p.title = title;
  for (size_t c = 0; c * width < steps; ++c)
    p.columns.push_back(fmt::format("{:.2f} s", static_cast<double>(c * width) * kAlignmentStep));
  AlignmentHead head{"mean", {}};
  for (const TranscriptSegment& s : t.segments) {
    const auto first = static_cast<size_t>(std::llround(s.alignment_start / kAlignmentStep));
    for (size_t i = 0; i < s.alignment.size(); ++i) {
      p.rows.push_back(transcriber.piece(s.tokens[i]));
      std::vector<float> row(p.columns.size(), 0.0F);
      for (size_t k = 0; k < s.alignment[i].size(); ++k)
        if ((first + k) / width < row.size()) row[(first + k) / width] += s.alignment[i][k];
      head.weights.insert(head.weights.end(), row.begin(), row.end());
    }
  }
  p.heads.push_back(std::move(head));
  return p;
}

}  // namespace

void SpeechInput::add_options(CLI::App& command) {
  const auto before = command.get_options();
  CLI::Option* audio =
      command.add_option("--audio", files, "Sound of a source (.wav, .flac, .ogg; may be given several times)");
  command.add_option("--language", language, "Language of the sound, as a code or in English (default: heard)");
  command.add_option("--task", task, "transcribe, or translate (into English)");
  command.add_flag("--timestamps", timestamps, "Say when each segment of speech begins and ends");
  command.add_flag("--word-timestamps", word_timestamps, "Say when each word begins and ends");
  command
      .add_option("--temperatures", temperatures, "Tried one after the other while a window's text is bad (default: 0)")
      ->delimiter(',');
  command.add_option("--compression-ratio-threshold", compression_ratio_threshold,
                     "Text that can be compressed by more than this is bad: it repeats itself");
  command.add_option("--logprob-threshold", logprob_threshold, "Text whose mean log-probability is lower is bad");
  command.add_option("--no-speech-threshold", no_speech_threshold,
                     "Bad text is none where silence is more probable than this");
  command.add_flag("--condition-on-previous-text", condition_on_previous_text,
                   "Long sound: what was said before helps to understand what follows");
  command.add_option("--prompt", prompt, "Text as if it had been said before: names and spellings are taken from it");
  command.add_flag("--prompt-all-segments", prompt_all_segments,
                   "With --condition-on-previous-text: the prompt stays in front of each window");
  command.add_option("--subtitles", subtitles, "Write the segments to FILE.srt or .vtt");
  for (CLI::Option* option : command.get_options()) {
    if (std::find(before.begin(), before.end(), option) != before.end() || option == audio) continue;
    option->needs(audio);
    of_transcribers_.push_back(option);
  }
}

void SpeechInput::check_without_transcriber() const {
  std::vector<std::string> given;
  for (const CLI::Option* option : of_transcribers_)
    if (option->count() > 0) given.push_back(option->get_name());
  if (!given.empty())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: expected a Whisper model with {}; this folder's takes each sound as a whole",
                            fmt::join(given, ", "), given.size() == 1 ? "it" : "them"));
}

bool is_transcriber(const std::string& folder) {
  return read_audio_feature_options(folder).kind == AudioFeatureKind::kWhisper;
}

TensorMap read_speech(const std::string& folder, const std::vector<std::string>& files) {
  const AudioFeatureOptions options = read_audio_feature_options(folder);
  std::vector<Tensor> features;
  int64_t frames = 0;
  for (const std::string& file : files) {
    const Audio audio = read_audio(file);
    features.push_back(within(
        [&] { return file; },
        [&] { return audio_features(resample(audio.samples, audio.sampling_rate, options.sampling_rate), options); }));
    frames = std::max(frames, features.back().dim(1));
  }
  const auto count = static_cast<int64_t>(files.size());
  std::vector<float> values;
  std::vector<int64_t> mask;
  for (const Tensor& f : features) {
    const auto own = f.values<float>();
    values.insert(values.end(), own.begin(), own.end());
    values.resize(values.size() + static_cast<size_t>((frames - f.dim(1)) * options.feature_size), 0.0F);
    mask.insert(mask.end(), static_cast<size_t>(f.dim(1)), 1);
    mask.resize(mask.size() + static_cast<size_t>(frames - f.dim(1)), 0);
  }
  return {{"input_features", Tensor::from<float>({count, frames, options.feature_size}, values)},
          {"attention_mask", Tensor::from<int64_t>({count, frames}, mask)}};
}

int transcribe(const std::string& folder, const SpeechInput& input, GeneratorOptions options,
               const std::function<void(GenerationOptions&)>& adjust, const SpeechOutput& output) {
  // What is wrong with a file shows before the model is loaded.
  if (!input.subtitles.empty()) {
    check_subtitles_file(input.subtitles);
    check_writable(input.subtitles);
  }
  std::vector<Audio> sounds;
  for (const std::string& file : input.files) sounds.push_back(read_audio(file));
  const bool aligned = output.alignments || output.alignment.draws();
  options.alignments = input.word_timestamps || aligned;
  options.alignment_heads = output.alignment.selection();
  options.each_head = input.word_timestamps;
  if (options.alignments) options.prepare = fuse;
  Transcriber transcriber = Transcriber::load(folder, options);
  TranscriptionOptions o = transcriber.defaults();
  adjust(o.generation);
  o.language = input.language;
  o.task = input.task;
  o.timestamps = o.timestamps || input.timestamps || !input.subtitles.empty();
  o.word_timestamps = input.word_timestamps;
  if (!input.temperatures.empty()) o.temperatures = input.temperatures;
  o.compression_ratio_threshold = input.compression_ratio_threshold;
  o.logprob_threshold = input.logprob_threshold;
  o.no_speech_threshold = input.no_speech_threshold;
  o.condition_on_previous_text = input.condition_on_previous_text;
  o.prompt = input.prompt;
  o.prompt_all_segments = input.prompt_all_segments;
  o.generation.output_alignments = aligned;

  json results = json::array();
  for (size_t i = 0; i < sounds.size(); ++i) {
    Progress progress("transcribing");
    const bool timed = input.timestamps || input.word_timestamps;
    bool begun = false;
    const auto show = [&](const TranscriptSegment& segment, double seconds) {
      if (!output.stream || output.json) {
        progress.update(static_cast<size_t>(seconds), static_cast<size_t>(sounds[i].seconds()),
                        progress.pace("seconds", seconds, seconds / sounds[i].seconds()));
        return;
      }
      if (timed) {
        print_segment(segment, !input.timestamps);
      } else {
        print(begun ? segment.text : without_blank(segment.text));
        begun = true;
      }
      flush();
    };
    const Transcript t =
        within([&] { return input.files[i]; }, [&] { return transcriber.transcribe(sounds[i], o, show); });
    if (output.json) {
      results.push_back(transcript_json(t, input.files[i]));
    } else if (output.stream) {
      if (!timed) print_line("");
    } else if (timed) {
      for (const TranscriptSegment& s : t.segments) print_segment(s, !input.timestamps);
    } else {
      print_line(without_blank(t.text()));
    }
    if (!input.subtitles.empty()) write_subtitles(t, numbered_file(input.subtitles, i));
    if (output.alignment.draws()) output.alignment.draw(picture_of(t, transcriber, input.files[i]), i);
  }
  if (output.json) print_json(results.size() == 1 ? results[0] : results);
  return kSuccess;
}

}  // namespace attune::cli
