#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/alignment_output.h"
#include "cli/command.h"
#include "cli/generation_input.h"
#include "cli/generation_text.h"
#include "cli/image_input.h"
#include "cli/inputs_stay.h"
#include "cli/line_input.h"
#include "cli/speech.h"
#include "runtime/generator.h"
#include "runtime/json_file.h"
#include "runtime/text/unicode.h"
#include "runtime/token_inputs.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string folder, ids, features, request;
  std::vector<std::string> text, settings;
  int64_t max_new = 0, beams = 0;
  int threads = 0;
  AlignmentOutput alignment;
  LineInput lines;
  SpeechInput speech;
  ImageInput images;
  bool alignments = false;
  bool json = false, cache = false, stream = false;

  // The sources are or become text, and so is the output.
  bool speaks() const { return !text.empty() || lines.given() || speech.given() || images.given(); }
};

struct Request {
  TensorMap inputs;
  GenerationOptions options;
  std::vector<std::vector<int64_t>> sources;  // token ids of each source, if they are tokens
  SeenImages images;
};

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// A matrix of integers or numbers, given as nested lists.
Tensor tensor_of(const std::string& name, const json& value) {
  Shape shape;
  for (const json* level = &value; level->is_array(); level = &level->front()) {
    shape.push_back(static_cast<int64_t>(level->size()));
    if (level->empty()) invalid(fmt::format("input '{}' is empty", name));
  }
  std::vector<double> numbers;
  bool integers = true;
  const std::function<void(const json&, size_t)> collect = [&](const json& v, size_t depth) {
    if (v.is_array() != (depth < shape.rank()) || (v.is_array() && static_cast<int64_t>(v.size()) != shape[depth]) ||
        (!v.is_array() && !v.is_number()))
      invalid(fmt::format("input '{}': expected lists of numbers of equal length", name));
    if (v.is_array()) {
      for (const json& inner : v) collect(inner, depth + 1);
    } else {
      integers = integers && v.is_number_integer();
      numbers.push_back(v.get<double>());
    }
  };
  collect(value, 0);
  if (integers) return Tensor::from<int64_t>(shape, std::vector<int64_t>(numbers.begin(), numbers.end()));
  return Tensor::from<float>(shape, std::vector<float>(numbers.begin(), numbers.end()));
}

constexpr std::array<std::string_view, 4> kRequestNames = {"inputs", "inputs_npz", "args", "max_new_tokens"};

// One prompt, or one of each source.
std::vector<std::vector<int64_t>> prompts_of(const Tensor& ids) {
  const Shape& shape = ids.shape();
  if ((shape.rank() != 1 && shape.rank() != 2) || ids.count() == 0)
    invalid(fmt::format("decoder_input_ids: expected shape (sources, length), got {}", shape.to_string()));
  const auto values = ids.to_int64();
  const auto width = static_cast<std::ptrdiff_t>(shape.back());
  std::vector<std::vector<int64_t>> prompts;
  for (auto at = values.begin(); at != values.end(); at += width) prompts.emplace_back(at, at + width);
  return prompts;
}

Request read_request(const fs::path& file, const GenerationOptions& defaults) {
  const auto read = read_json_object(file);
  if (!read) throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened", file.string()));
  const json& object = *read;
  for (const auto& [name, value] : object.items())
    if (std::find(kRequestNames.begin(), kRequestNames.end(), name) == kRequestNames.end())
      invalid(fmt::format("{}: unknown name '{}'; expected {}", file.string(), name, fmt::join(kRequestNames, ", ")));
  Request request;
  request.options = defaults;
  if (object.contains("inputs_npz")) {
    if (!object["inputs_npz"].is_string()) invalid(fmt::format("{}: expected inputs_npz to be a file", file.string()));
    const fs::path npz = object["inputs_npz"].get<std::string>();
    request.inputs = read_named(npz.is_absolute() ? npz : file.parent_path() / npz);
  } else if (object.contains("inputs") && object["inputs"].is_object()) {
    for (const auto& [name, value] : object["inputs"].items()) request.inputs[name] = tensor_of(name, value);
  } else {
    invalid(fmt::format("{}: expected 'inputs' or 'inputs_npz'", file.string()));
  }
  if (const auto it = request.inputs.find("decoder_input_ids"); it != request.inputs.end()) {
    request.options.decoder_input_ids = prompts_of(it->second.tensor());
    request.inputs.erase(it);
  }
  if (object.contains("args")) within("args", [&] { read_generation_options(object["args"].dump(), request.options); });
  if (object.contains("max_new_tokens")) {
    const json length{{"max_new_tokens", object["max_new_tokens"]}};
    read_generation_options(length.dump(), request.options);
  }
  return request;
}

json result_json(const std::vector<std::vector<Generation>>& generations, const GenerationOptions& options,
                 const Tokenizer* tokenizer) {
  json out{{"sequences", padded_sequences(generations, options)}};
  json scores = json::array(), alignments = json::array(), texts = json::array();
  for (const auto& source : generations)
    for (const Generation& g : source) {
      if (g.score) scores.push_back(*g.score);
      if (tokenizer) texts.push_back(text_of(g, *tokenizer));
      alignments.push_back(g.alignment);
    }
  if (!scores.empty()) out["scores"] = scores;
  if (tokenizer) out["texts"] = texts;
  if (options.output_alignments) out["alignments"] = alignments;
  return out;
}

void print_generations(const std::vector<std::vector<Generation>>& generations, const Tokenizer* tokenizer) {
  for (const auto& source : generations)
    for (const Generation& g : source) {
      const bool several = source.size() > 1;
      print(g.score && (several || !tokenizer) ? fmt::format("{:.4f}\t", *g.score) : std::string());
      print_line(tokenizer ? text_of(g, *tokenizer) : fmt::format("{}", fmt::join(g.tokens, " ")));
    }
}

void adjust(const Options& o, GenerationOptions& options) {
  for (const std::string& setting : o.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) invalid(fmt::format("--set {}: expected NAME=VALUE", setting));
    set_generation_option(setting.substr(0, equals), setting.substr(equals + 1), options);
  }
  if (o.max_new > 0) options.max_new_tokens = o.max_new;
  if (o.beams > 0) options.num_beams = o.beams;
  if (o.alignments || o.alignment.draws()) options.output_alignments = true;
}

Request make_request(const Options& o, const Tokenizers& tokenizers) {
  Request request;
  request.options = Generator::options_of(o.folder);
  if (!o.request.empty()) {
    request = read_request(o.request, request.options);
  } else if (!o.text.empty()) {
    for (const std::string& text : o.text) {
      if (!unicode::is_valid(text)) invalid("--text: expected UTF-8");
      request.sources.push_back(tokenizers.source->encode(text));
    }
    request.inputs = padded_inputs(request.sources, request.options.pad_token_id.value_or(0));
  } else if (o.images.given()) {
    request.images = read_images(o.folder, o.images);
    request.inputs = request.images.inputs();
  } else if (o.speech.given()) {
    request.inputs = read_speech(o.folder, o.speech.files);
  } else if (!o.lines.given()) {
    request.inputs = o.ids.empty() ? read_named(o.features) : read_ids(o.ids);
  }
  if (request.sources.empty()) request.sources = source_tokens(request.inputs);
  adjust(o, request.options);
  check(request.options);
  if (o.stream && request.options.num_return_sequences > 1)
    invalid("--stream prints one output a source: it can't be combined with num_return_sequences");
  return request;
}

// What goes together.
void check_options(const Options& o) {
  const int given = !o.text.empty() + !o.ids.empty() + !o.features.empty() + !o.request.empty() + o.lines.given() +
                    o.speech.given() + o.images.given();
  if (given != 1) invalid("expected one of --text, --input, --audio, --image, --ids, --features and --request");
  o.alignment.check_options(o.alignments);
  if (o.alignments && !o.json) invalid("--alignments gives numbers: expected --json with it");
  if (o.stream && o.json) invalid("--stream and --json can't be combined");
  if (o.stream && !o.speaks()) invalid("--stream needs text: --text, --input, --audio or --image");
  if (o.lines.given() && (o.alignment.draws() || o.alignments))
    invalid("--input and alignments can't be combined: give the text with --text");
}

// Each source has a picture and subtitles of its own.
void check_inputs_stay(const Options& o) {
  std::vector<fs::path> inputs{o.folder, o.ids, o.features, o.request, o.lines.file};
  for (const auto* files : {&o.speech.files, &o.images.files})
    inputs.insert(inputs.end(), files->begin(), files->end());
  InputFiles files(std::move(inputs));
  const size_t sources = std::max({size_t{1}, o.text.size(), o.speech.files.size(), o.images.files.size()});
  for (size_t i = 0; i < sources; ++i) {
    if (!o.alignment.file.empty()) files.check_replaced_by("--alignment", numbered_file(o.alignment.file, i));
    if (!o.speech.subtitles.empty()) files.check_replaced_by("--subtitles", numbered_file(o.speech.subtitles, i));
  }
}

// One source after the other, each piece of its text as soon as it is settled.
std::vector<std::vector<Generation>> stream(Generator& generator, const Request& request, const Tokenizer& tokenizer) {
  const auto count = request.inputs.begin()->second.tensor().dim(0);
  std::vector<std::vector<Generation>> generations;
  for (int64_t i = 0; i < count; ++i) {
    TensorMap one;
    for (const auto& [name, value] : request.inputs) one[name] = row_of(value.tensor(), i);
    generations.push_back(stream_source(generator, one, request.options, tokenizer));
  }
  return generations;
}

void print_result(const std::vector<std::vector<Generation>>& generations, const Request& request,
                  const Tokenizer* tokenizer, bool as_json) {
  if (!as_json) return print_generations(generations, tokenizer);
  json result = result_json(generations, request.options, tokenizer);
  if (tokenizer) result["sources"] = request.sources;
  print_json(result);
}

int generate(const Options& o) {
  check_options(o);
  if (!fs::is_directory(o.folder)) invalid(fmt::format("{}: no such folder", o.folder));
  check_inputs_stay(o);
  if (o.speech.given() && is_transcriber(o.folder)) {
    GeneratorOptions options;
    options.session.threads = o.threads;
    options.cache = o.cache;
    return transcribe(o.folder, o.speech, options, [&](GenerationOptions& g) { adjust(o, g); },
                      {o.json, o.stream, o.alignments, o.alignment});
  }
  if (o.speech.given()) o.speech.check_without_transcriber();
  // A request is read before the model is: what is wrong with it shows at once.
  const GenerationOptions defaults = Generator::options_of(o.folder);
  Tokenizers tokenizers;
  if (o.speaks()) {
    tokenizers = require_tokenizers(o.folder, defaults);
  } else if (o.alignment.draws()) {
    tokenizers = find_tokenizers(o.folder, -1);
  }
  const Request request = make_request(o, tokenizers);

  GeneratorOptions options;
  options.session.threads = o.threads;
  options.cache = o.cache;
  o.alignment.prepare(options, request.options);
  Generator generator = Generator::load(o.folder, options);
  if (o.lines.given()) {
    generate_lines(o.lines, generator, request.options, tokenizers, {o.stream, o.json});
    return kSuccess;
  }
  const Tokenizer* target = o.speaks() ? tokenizers.target.get() : nullptr;
  const auto generations =
      o.stream ? stream(generator, request, *target) : generator.generate(request.inputs, request.options);
  if (!o.stream) print_result(generations, request, target, o.json);
  if (o.alignment.draws() && o.images.given()) {
    draw_patches(o.folder, o.alignment, request.images, generations, tokenizers);
  } else if (o.alignment.draws()) {
    o.alignment.draw(generations, request.sources, tokenizers, o.text);
  }
  return kSuccess;
}

}  // namespace

Action add_generate(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  command.add_option("folder", o->folder, "Folder of an encoder-decoder model: encoder*.onnx, decoder*.onnx")
      ->required();
  command.add_option("--text", o->text, "Text of a source (may be given several times); the folder has the tokenizer");
  o->lines.add_options(command);
  o->speech.add_options(command);
  o->images.add_options(command);
  command.add_option("--ids", o->ids, "Token ids: .npy, or text with one source a line");
  command.add_option("--features", o->features, "Inputs of the encoder by name: .npz");
  command.add_option("--request", o->request, "JSON file: inputs (or inputs_npz) and args, named as Hugging Face does");
  command.add_option("--max-new", o->max_new, "New tokens at most")->check(at_least(1));
  command.add_option("--beams", o->beams, "Beams (1: greedy)")->check(at_least(1));
  command.add_option("--set", o->settings,
                     "NAME=VALUE, named as in generation_config.json (num_return_sequences=3; may be given several "
                     "times)");
  add_threads(command, o->threads);
  command.add_flag("--alignments", o->alignments, "Give the weights of cross-attention (with --json)");
  o->alignment.add_options(command);
  command.add_flag("--cache", o->cache, "Keep packed weights in a file in the folder, for a quick start");
  command.add_flag("--stream", o->stream, "Print each piece of text as soon as it is settled");
  command.add_flag("--json", o->json, "Print JSON: sequences, scores, alignments");
  return [o] { return generate(*o); };
}

}  // namespace attune::cli
