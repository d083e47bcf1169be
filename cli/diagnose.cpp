#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/command.h"
#include "cli/generation_input.h"
#include "cli/generation_text.h"
#include "cli/inputs_stay.h"
#include "cli/line_reader.h"
#include "convert/convert.h"
#include "graph/io/output_file.h"
#include "runtime/diagnosis/diagnosis.h"
#include "runtime/token_inputs.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, input, picture;
  int64_t max_new = 0, longest = 512;
  int threads = 0;
  bool no_regime = false, all = false, json = false;
};

TensorMap read_text(const Options& o) {
  const GenerationOptions defaults = Generator::options_of(o.folder);
  const Tokenizers tokenizers = require_tokenizers(o.folder, defaults);
  std::ifstream in(o.input);
  if (!in) throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened", o.input));
  std::vector<std::vector<int64_t>> sources;
  LineReader lines(in);
  for (std::string line; lines.next(line);)
    if (!line.empty()) sources.push_back(tokenizers.source->encode(line));
  if (lines.failed()) throw Error(Error::Kind::kIo, fmt::format("{}: can't be read", o.input));
  if (sources.empty()) throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: holds no text", o.input));
  return padded_inputs(sources, defaults.pad_token_id.value_or(0));
}

TensorMap read_inputs(const Options& o) {
  const fs::path file = o.input;
  if (file.extension() == ".npz") return read_named(file);
  if (file.extension() == ".npy" || file.extension() == ".ids") return read_ids(file);
  return read_text(o);
}

int run(const Options& o) {
  if (!o.picture.empty()) {
    check_alignment_file(o.picture);
    InputFiles({o.folder, o.input}).check_replaced_by("--picture", o.picture);
    check_writable(o.picture);
  }
  const TensorMap inputs = read_inputs(o);
  DiagnosisOptions options;
  if (o.max_new > 0) options.max_new_tokens = o.max_new;
  options.regime = !o.no_regime;
  options.longest_source = o.longest;
  options.session.threads = o.threads;
  options.prepare = fuse;
  const Diagnosis diagnosis = diagnose(o.folder, inputs, options);
  if (!o.picture.empty()) write_alignment(diagnosis_picture(diagnosis), o.picture);
  if (o.json) {
    print_line(diagnosis_json(diagnosis));
  } else {
    print(diagnosis_text(diagnosis, o.all));
  }
  return kSuccess;
}

}  // namespace

Action add_diagnose(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  command.add_option("folder", o->folder, "Folder of an encoder-decoder model")->required();
  command
      .add_option("--input", o->input,
                  "Sources: text, one a line (the folder has the tokenizer); ids as .npy or .ids (text); inputs of "
                  "the encoder by name as .npz")
      ->required();
  command.add_option("--picture", o->picture, "Draw the numbers of all heads to FILE.svg, .png, .html or .json");
  command.add_option("--max-new", o->max_new, "New tokens at most")->check(at_least(1));
  CLI::Option* longest = command.add_option("--longest", o->longest, "Longest source that is timed")
                             ->check(at_least(1))
                             ->capture_default_str();
  add_threads(command, o->threads);
  command.add_flag("--no-regime", o->no_regime, "Don't time attention against the rest")->excludes(longest);
  command.add_flag("--all", o->all, "A line for every head, not only for those with symptoms");
  command.add_flag("--json", o->json, "Print JSON: heads, outputs, regime");
  return [o] { return run(*o); };
}

}  // namespace attune::cli
