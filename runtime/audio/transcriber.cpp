#include "runtime/audio/transcriber.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/error.h"
#include "runtime/audio/features.h"
#include "runtime/audio/segments.h"
#include "runtime/audio/whisper_config.h"
#include "runtime/audio/word_times.h"
#include "runtime/log_sum.h"
#include "runtime/text/tokenizer.h"

namespace attune {
namespace {

constexpr int64_t kFramesPerPosition = 2;  // the encoder halves time
constexpr double kFrameSeconds = 0.01, kStepSeconds = 0.02;

// Languages that put no blanks between words.
constexpr std::array<std::string_view, 6> kUnspaced{"zh", "ja", "th", "lo", "my", "yue"};

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

void check_numbers(const TranscriptionOptions& o) {
  if (o.generation.num_return_sequences != 1)
    invalid(fmt::format("num_return_sequences: expected 1, sound has one transcript, found {}",
                        o.generation.num_return_sequences));
  if (o.temperatures.empty()) invalid("temperatures: expected at least one");
  for (const float t : o.temperatures)
    if (!(t >= 0) || !std::isfinite(t))
      invalid(fmt::format("temperatures: expected numbers of at least 0, found {}", t));
  const auto number = [](const char* name, const std::optional<float>& value) {
    if (value && std::isnan(*value)) invalid(fmt::format("{}: expected a number, found nan", name));
  };
  number("compression_ratio_threshold", o.compression_ratio_threshold);
  number("logprob_threshold", o.logprob_threshold);
  number("no_speech_threshold", o.no_speech_threshold);
}

float mean_log_probability(const Generation& g) {
  double sum = 0;
  for (const float p : g.log_probabilities) sum += static_cast<double>(p);
  return static_cast<float>(sum / static_cast<double>(std::max<size_t>(1, g.log_probabilities.size())));
}

// The bytes of the tokens over what zlib makes of them.
double compression_ratio(std::span<const int64_t> tokens, int64_t vocabulary) {
  const int width = static_cast<int>(std::log2(static_cast<double>(vocabulary)) / 8) + 1;
  std::vector<Bytef> bytes;
  for (const int64_t t : tokens)
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<Bytef>(t >> (8 * i)));
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::vector<Bytef> compressed(size);
  if (compress(compressed.data(), &size, bytes.data(), static_cast<uLong>(bytes.size())) != Z_OK)
    throw Error(Error::Kind::kInternal, "zlib can't compress");
  return static_cast<double>(bytes.size()) / static_cast<double>(size);
}

// Frames [begin, begin + frames) of (1, bands, all), and zeros behind them up to `width`.
Tensor window_of(const Tensor& features, int64_t begin, int64_t frames, int64_t width) {
  const int64_t bands = features.dim(1), all = features.dim(2);
  Tensor out = Tensor::allocate(DataType::kFloat, {1, bands, width});
  for (int64_t b = 0; b < bands; ++b) {
    const float* from = features.data<float>() + b * all + begin;
    float* to = out.mutable_data<float>() + b * width;
    std::fill(std::copy_n(from, frames, to), to + width, 0.0F);
  }
  return out;
}

}  // namespace

struct Transcriber::Impl {
  // What is the same for all windows of one sound.
  struct Run {
    GenerationOptions options;
    bool words = false, alignments = false;
    int64_t first_time = INT64_MAX;  // token
    int64_t sounding_frames = 0;     // without silence that was put behind it
    const TranscriptionOptions& transcription;
    std::vector<int64_t> said_before;  // tokens of TranscriptionOptions::prompt
    size_t start_length = 0;           // of the prompt without earlier text
    float last_temperature = 0;        // of the window before
  };

  Impl(const std::filesystem::path& folder, const GeneratorOptions& options)
      : features(read_audio_feature_options(folder)),
        config(read_whisper_config(folder)),
        generator(Generator::load(folder, options)) {
    if (features.kind != AudioFeatureKind::kWhisper)
      throw Error(Error::Kind::kUnsupported,
                  fmt::format("{}: only Whisper models are transcribed in windows", folder.string()));
    const auto& eos = generator.defaults().eos_token_id;
    tokenizer = find_tokenizers(folder, eos.empty() ? -1 : eos.front()).target;
    if (!tokenizer) throw Error(Error::Kind::kIo, fmt::format("{}: has no tokenizer", folder.string()));
  }

  using Window = Generator::Encoded;
  Window encoded(const Tensor& window) { return generator.encode({{"input_features", window}}); }

  int64_t window_frames() const { return kFramesPerPosition * config.source_positions; }
  Transcript transcribe(const Audio& audio, const TranscriptionOptions& options, const SegmentCallback& callback);
  int64_t add_window(const Generation& g, int64_t seek, int64_t frames, const Run& run, Transcript& out) const;
  Tensor features_of(const Audio& audio) const;
  std::vector<int64_t> start_tokens(const TranscriptionOptions& o, bool timestamps, const Window& first_window);
  int64_t hear_language(int64_t start, const Window& window);
  std::vector<int64_t> prompt_tokens(const std::string& text, int64_t first_special) const;
  std::vector<int64_t> earlier_text(const std::vector<TranscriptSegment>& segments, const Run& run) const;
  Generation generate(const Window& window, const std::vector<int64_t>& prompt, GenerationOptions o);
  std::optional<Generation> transcribe_window(const Window& window, const std::vector<int64_t>& prompt, Run& run);
  bool is_bad(const Generation& g, const TranscriptionOptions& o) const;
  bool is_silence(const Generation& g, const Window& window, const std::vector<int64_t>& prompt, const Run& run);
  std::string text_of(std::span<const int64_t> tokens, int64_t first_time) const;
  void add_words(TranscriptSegment& segment, double before, const std::string& language, int64_t first_time) const;

  AudioFeatureOptions features;
  WhisperConfig config;
  Generator generator;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Of sound up to one window: with silence behind it, so that it fills the window.
Tensor Transcriber::Impl::features_of(const Audio& audio) const {
  auto samples = resample(audio.samples, audio.sampling_rate, features.sampling_rate);
  samples.resize(std::max(samples.size(), static_cast<size_t>(window_frames() * features.hop_length)), 0.0F);
  return audio_features(samples, features);
}

int64_t Transcriber::Impl::hear_language(int64_t start, const Window& window) {
  const auto scores = generator.next_token_scores(window, {{start}}).at(0);
  const auto better = [&](const auto& a, const auto& b) {
    const auto score = [&](int64_t token) {
      if (token < 0 || static_cast<size_t>(token) >= scores.size())
        invalid(fmt::format("lang_to_id: token {} lies outside the vocabulary of {}", token, scores.size()));
      return scores[static_cast<size_t>(token)];
    };
    return score(a.second) < score(b.second);
  };
  return std::max_element(config.languages.begin(), config.languages.end(), better)->second;
}

std::vector<int64_t> Transcriber::Impl::start_tokens(const TranscriptionOptions& o, bool timestamps,
                                                     const Window& first_window) {
  const GenerationOptions& g = o.generation;
  if (!g.decoder_start_token_id) invalid("the configuration has no decoder_start_token_id");
  std::string language = o.language.empty() ? config.language : o.language;
  std::string task = o.task.empty() ? config.task : o.task;
  std::vector<int64_t> tokens{*g.decoder_start_token_id};
  if (!config.multilingual) {
    const bool english = language.empty() || language == "en" || language == "english" || language == "English";
    if (!english || (!task.empty() && task != "transcribe"))
      invalid("the model knows only English, and only to transcribe it");
    language = task = "";
  }
  const auto task_token = [&](const std::string& name) {
    const auto it = config.tasks.find(name);
    if (it == config.tasks.end()) invalid(fmt::format("task '{}': the model doesn't know it", name));
    return it->second;
  };

  std::optional<int64_t> language_id;
  if (!language.empty()) language_id = language_token(config, language);
  const bool forced = language.empty() && task.empty() && !config.forced_prompt.empty();
  const bool hear = !config.languages.empty() && !language_id && (!forced || !config.forced_prompt.front());
  if (hear) language_id = hear_language(tokens[0], first_window);
  if (language_id) tokens.push_back(*language_id);
  if (forced)
    for (size_t i = language_id ? 1 : 0; i < config.forced_prompt.size(); ++i)
      if (config.forced_prompt[i]) tokens.push_back(*config.forced_prompt[i]);
  if (!task.empty()) {
    tokens.push_back(task_token(task));
  } else if (!language.empty() && !config.tasks.empty()) {
    tokens.push_back(task_token("transcribe"));
  }
  if (const auto none = g.no_timestamps_token_id) {
    if (!timestamps && tokens.back() != *none) tokens.push_back(*none);
    if (timestamps && tokens.back() == *none) tokens.pop_back();
  }
  return tokens;
}

// Tokens of text alone.
std::vector<int64_t> Transcriber::Impl::prompt_tokens(const std::string& text, int64_t first_special) const {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return {};
  auto tokens = tokenizer->encode(" " + text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
  // What the tokenizer puts around any text.
  const auto around = tokenizer->encode("");
  const auto [in_front, same] = std::mismatch(around.begin(), around.end(), tokens.begin(), tokens.end());
  const auto behind = around.end() - in_front;
  tokens.erase(tokens.end() - std::min(behind, tokens.end() - same), tokens.end());
  tokens.erase(tokens.begin(), tokens.begin() + (in_front - around.begin()));
  for (const int64_t t : tokens)
    if (t >= first_special) invalid(fmt::format("the prompt holds the special token {}", tokenizer->piece(t)));
  return tokens;
}

// <|startofprev|> and what was said before a window: the prompt, the newest text of earlier windows (as much as half of
// the decoder's positions hold), or both. Nothing if there is neither.
std::vector<int64_t> Transcriber::Impl::earlier_text(const std::vector<TranscriptSegment>& segments,
                                                     const Run& run) const {
  const GenerationOptions& o = run.options;
  // Text that was drawn at random rather confuses.
  const bool conditions =
      run.transcription.condition_on_previous_text && run.last_temperature < 0.5F && o.no_timestamps_token_id;
  const bool stays = !conditions || run.transcription.prompt_all_segments;
  std::vector<int64_t> text = stays ? std::vector<int64_t>() : run.said_before;
  for (size_t i = 0; conditions && i < segments.size(); ++i) {
    const auto& tokens = segments[i].tokens;
    const bool pair_at_end = tokens.size() > 2 && tokens[tokens.size() - 2] >= run.first_time;
    text.insert(text.end(), tokens.begin(), tokens.end() - (pair_at_end ? 1 : 0));
  }
  const auto most = static_cast<size_t>(config.target_positions / 2 - 1);
  if (text.size() > most) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(most));
  if (stays) text.insert(text.begin(), run.said_before.begin(), run.said_before.end());
  if (text.empty() && (!conditions || segments.empty())) return text;
  const size_t suppressed = o.suppress_tokens.size();
  if (config.previous_text_token) {
    text.insert(text.begin(), *config.previous_text_token);
  } else if (suppressed >= 2) {  // where older configurations have it
    text.insert(text.begin(), o.suppress_tokens[suppressed - 2]);
  }
  return text;
}

Generation Transcriber::Impl::generate(const Window& window, const std::vector<int64_t>& prompt, GenerationOptions o) {
  o.decoder_input_ids = {prompt};
  const auto length = static_cast<int64_t>(prompt.size());
  if (o.max_new_tokens) o.max_new_tokens = std::min(*o.max_new_tokens, config.target_positions - length);
  return std::move(generator.generate(window, o).at(0).at(0));
}

// What the first of the temperatures gives whose text is good, else the last; nothing if there is no speech.
std::optional<Generation> Transcriber::Impl::transcribe_window(const Window& window, const std::vector<int64_t>& prompt,
                                                               Run& run) {
  Generation g;
  for (const float temperature : run.transcription.temperatures) {
    GenerationOptions o = run.options;
    o.do_sample = temperature > 0;
    if (o.do_sample) {
      o.temperature = temperature;
      o.num_beams = 1;
    }
    run.last_temperature = temperature;
    g = generate(window, prompt, o);
    if (is_silence(g, window, prompt, run)) return std::nullopt;
    if (!is_bad(g, run.transcription)) break;
  }
  return g;
}

bool Transcriber::Impl::is_bad(const Generation& g, const TranscriptionOptions& o) const {
  if (o.compression_ratio_threshold && compression_ratio(std::span(g.tokens).subspan(g.prompt_length),
                                                         config.vocabulary) > *o.compression_ratio_threshold)
    return true;
  return o.logprob_threshold && mean_log_probability(g) < *o.logprob_threshold;
}

// By what the model expects behind the start token: <|nospeech|> stands before <|notimestamps|>.
bool Transcriber::Impl::is_silence(const Generation& g, const Window& window, const std::vector<int64_t>& prompt,
                                   const Run& run) {
  const TranscriptionOptions& o = run.transcription;
  if (!o.no_speech_threshold || mean_log_probability(g) >= o.logprob_threshold.value_or(-INFINITY)) return false;
  const auto before = std::span(prompt).first(prompt.size() - run.start_length + 1);
  const auto scores = generator.next_token_scores(window, {{before.begin(), before.end()}}).at(0);
  const float none = scores.at(static_cast<size_t>(run.first_time - 2));
  return std::exp(none - log_sum_exp(scores)) > *o.no_speech_threshold;
}

// `before`: when the token before the segment ends.
void Transcriber::Impl::add_words(TranscriptSegment& segment, double before, const std::string& language,
                                  int64_t first_time) const {
  std::vector<int64_t> text;
  std::vector<double> starts, ends;
  for (size_t i = 0; i < segment.tokens.size(); ++i) {
    if (segment.tokens[i] >= first_time) continue;
    text.push_back(segment.tokens[i]);
    starts.push_back(i == 0 ? before : segment.token_times[i - 1]);
    ends.push_back(segment.token_times[i]);
  }
  const bool spaced = std::find(kUnspaced.begin(), kUnspaced.end(), language) == kUnspaced.end();
  for (TokenGroup& word : group_words(text, *tokenizer, spaced))
    segment.words.push_back({starts[word.begin], ends[word.end - 1], std::move(word.text)});
}

// The segments of one window, which begins with frame `seek`; gives the frames by which the next begins later.
int64_t Transcriber::Impl::add_window(const Generation& g, int64_t seek, int64_t frames, const Run& run,
                                      Transcript& out) const {
  std::span<const int64_t> tokens = std::span(g.tokens).subspan(g.prompt_length);
  const auto& eos = run.options.eos_token_id;
  if (!tokens.empty() && std::find(eos.begin(), eos.end(), tokens.back()) != eos.end())
    tokens = tokens.first(tokens.size() - 1);
  const double offset = static_cast<double>(seek) * kFrameSeconds;
  const auto seconds = [&](int64_t steps) { return offset + static_cast<double>(steps) * kStepSeconds; };
  const auto sounding = static_cast<size_t>(std::max<int64_t>(run.sounding_frames - seek, 0) / kFramesPerPosition);
  std::vector<int64_t> ends;
  if (run.words)
    ends = token_positions(g, run.options.alignment_heads, sounding, static_cast<size_t>(config.median_filter_width));
  const auto window = split_window(tokens, run.first_time, frames);
  for (const WindowSegment& s : window.segments) {
    const auto part = tokens.subspan(s.begin, s.end - s.begin);
    TranscriptSegment segment;
    segment.start = seconds(s.start);
    segment.end = seconds(s.stop);
    segment.tokens.assign(part.begin(), part.end());
    segment.text = text_of(part, run.first_time);
    if (run.words) {
      for (size_t i = s.begin; i < s.end; ++i) segment.token_times.push_back(seconds(ends[i]));
      add_words(segment, s.begin > 0 ? seconds(ends[s.begin - 1]) : offset, out.language, run.first_time);
    }
    for (size_t i = s.begin; run.alignments && i < s.end; ++i) {
      const auto& weights = g.alignment.at(i);
      const size_t length = std::min(weights.size(), sounding);
      segment.alignment.emplace_back(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(length));
      segment.alignment_start = offset;
      segment.alignment_end = offset + static_cast<double>(length) * kAlignmentStep;
    }
    out.segments.push_back(std::move(segment));
  }
  return window.seek;
}

Transcript Transcriber::Impl::transcribe(const Audio& audio, const TranscriptionOptions& options,
                                         const SegmentCallback& callback) {
  const Tensor all = features_of(audio);
  const int64_t width = window_frames(), count = all.dim(2);
  Run run{options.generation, options.word_timestamps, options.generation.output_alignments, INT64_MAX, 0, options, {}};
  run.sounding_frames =
      (static_cast<int64_t>(std::llround(audio.seconds() * static_cast<double>(features.sampling_rate))) +
       features.hop_length - 1) /
      features.hop_length;
  GenerationOptions& o = run.options;
  o.return_timestamps = options.timestamps || count > width;
  o.output_alignments = run.words || run.alignments;
  o.prompt_as_is = true;
  o.forced_decoder_ids.clear();
  o.output_log_probabilities = options.logprob_threshold.has_value();
  check(o);
  check_numbers(options);
  if (options.no_speech_threshold && (!options.logprob_threshold || !o.no_timestamps_token_id))
    invalid("no_speech_threshold needs logprob_threshold, and no_timestamps_token_id in generation_config.json");
  if (options.word_timestamps && o.alignment_heads.empty())
    invalid("word timestamps need alignment_heads in generation_config.json");
  if (o.no_timestamps_token_id) run.first_time = *o.no_timestamps_token_id + 1;
  if (options.prompt_all_segments && !options.condition_on_previous_text)
    invalid("prompt_all_segments needs condition_on_previous_text");
  run.said_before = prompt_tokens(options.prompt, o.eos_token_id.empty() ? INT64_MAX : o.eos_token_id.front());

  Transcript out;
  Window window = encoded(window_of(all, 0, std::min(width, count), width));
  out.prompt = start_tokens(options, o.return_timestamps, window);
  if (out.prompt.size() > 1) out.language = language_code(config, out.prompt[1]);
  run.start_length = out.prompt.size();
  for (int64_t seek = 0; seek < count;) {
    const int64_t frames = std::min(width, count - seek);
    std::vector<int64_t> prompt = earlier_text(out.segments, run);
    prompt.insert(prompt.end(), out.prompt.begin(), out.prompt.end());
    if (static_cast<int64_t>(prompt.size()) >= config.target_positions)
      invalid(
          fmt::format("a prompt of {} tokens: the decoder has {} positions", prompt.size(), config.target_positions));
    const size_t known = out.segments.size();
    if (seek > 0) window = encoded(window_of(all, seek, frames, width));
    const auto g = transcribe_window(window, prompt, run);
    seek += g ? add_window(*g, seek, frames, run, out) : frames;
    const double done = std::min(static_cast<double>(seek) * kFrameSeconds, audio.seconds());
    for (size_t i = known; callback && i < out.segments.size(); ++i) callback(out.segments[i], done);
  }
  return out;
}

std::string Transcriber::Impl::text_of(std::span<const int64_t> tokens, int64_t first_time) const {
  std::vector<int64_t> text;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(text), [&](int64_t t) { return t < first_time; });
  return tokenizer->decode(text);
}

Transcript Transcriber::transcribe(const Audio& audio, const TranscriptionOptions& options,
                                   const SegmentCallback& callback) {
  return impl_->transcribe(audio, options, callback);
}

std::string Transcript::text() const {
  std::string out;
  for (const TranscriptSegment& s : segments) out += s.text;
  return out;
}

TranscriptionOptions Transcriber::defaults() const {
  TranscriptionOptions o;
  o.generation = impl_->generator.defaults();
  o.timestamps = o.generation.return_timestamps;
  o.generation.num_return_sequences = 1;
  if (!o.generation.max_length && !o.generation.max_new_tokens)
    o.generation.max_length = impl_->config.target_positions;
  return o;
}

std::string Transcriber::piece(int64_t token) const {
  const auto none = impl_->generator.defaults().no_timestamps_token_id;
  if (none && token > *none) return fmt::format("<|{:.2f}|>", static_cast<double>(token - *none - 1) * kStepSeconds);
  return impl_->tokenizer->piece(token);
}

Transcriber::Transcriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transcriber::~Transcriber() = default;
Transcriber::Transcriber(Transcriber&&) noexcept = default;
Transcriber& Transcriber::operator=(Transcriber&&) noexcept = default;

Transcriber Transcriber::load(const std::filesystem::path& folder, const GeneratorOptions& options) {
  return Transcriber(std::make_unique<Impl>(folder, options));
}

}  // namespace attune
