#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/generation_input.h"
#include "graph/io/npy.h"
#include "runtime/generator.h"
#include "runtime/profile.h"
#include "runtime/rows.h"

namespace attune::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string folder, ids, features;
  int64_t new_tokens = 32, batch = 0, beams = 1;
  std::vector<int64_t> alignment_layers;
  int threads = 0, rounds = 3;
  bool profile = false, cache = false;
  bool json = false;
};

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// The first `batch` sources, from the start again when they run out.
TensorMap repeat(TensorMap inputs, int64_t batch) {
  for (auto& [name, datum] : inputs) {
    const Tensor& t = datum.tensor();
    if (t.rank() == 0 || t.dim(0) == 0)
      invalid(fmt::format("{}: expected sources along the first axis, got shape {}", name, t.shape().to_string()));
    if (batch <= 0) continue;
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < batch; ++i) rows.push_back(static_cast<int32_t>(i % t.dim(0)));
    datum = gather_rows(t, rows, nullptr);
  }
  return inputs;
}

// Exactly so many tokens, each the best one: nothing ends a sequence, nothing is forbidden.
GenerationOptions plain_search(const GenerationOptions& defaults, const Options& o) {
  GenerationOptions search;
  search.decoder_start_token_id =
      defaults.decoder_start_token_id ? defaults.decoder_start_token_id : defaults.bos_token_id;
  search.max_new_tokens = o.new_tokens;
  search.num_beams = o.beams;
  search.output_alignments = !o.alignment_layers.empty();
  return search;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int bench(const Options& o) {
  if (o.ids.empty() == o.features.empty()) invalid("expected one of --source-ids and --source-features");
  if (o.rounds < 1 || o.new_tokens < 1) invalid("--rounds and --new must be at least 1");
  TensorMap inputs;
  if (o.ids.empty()) {
    inputs["features"] = read_npy(o.features);
  } else {
    inputs = read_ids(o.ids);
  }
  inputs = repeat(std::move(inputs), o.batch);
  Profile profile;
  GeneratorOptions options;
  options.session.threads = o.threads;
  options.cache = o.cache;
  if (o.profile) options.session.profile = &profile;
  options.alignments = !o.alignment_layers.empty();
  options.alignment_heads.layers = o.alignment_layers;
  Generator generator = Generator::load(o.folder, options);
  const GenerationOptions search = plain_search(generator.defaults(), o);

  std::vector<double> encode, step;
  std::vector<std::vector<Generation>> generations;
  for (int round = -1; round < o.rounds; ++round) {  // the first one warms up
    profile.clear();
    generations = generator.generate(inputs, search);
    if (round < 0) continue;
    encode.push_back(generator.timing().encode_ms);
    step.push_back(generator.timing().decode_ms / static_cast<double>(o.new_tokens));
  }
  json tokens = json::array();
  for (const auto& source : generations) {
    const Generation& g = source.at(0);
    tokens.push_back(std::vector(g.tokens.begin() + static_cast<std::ptrdiff_t>(g.prompt_length), g.tokens.end()));
  }
  if (o.json) {
    json result{{"encode_ms", median(encode)}, {"step_ms", median(step)}, {"tokens", tokens}};
    if (o.profile) result["profile"] = profile_json(profile);
    print_json(result);
  } else {
    print_line(fmt::format("encode {:.2f} ms, {:.3f} ms a step (medians of {} rounds, {} new tokens, {} sources)",
                           median(encode), median(step), o.rounds, o.new_tokens, generations.size()));
  }
  if (o.profile && !o.json) print(profile.table());
  return kSuccess;
}

}  // namespace

Action add_bench(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  command.add_option("folder", o->folder, "Folder of an encoder-decoder model")->required();
  command.add_option("--source-ids", o->ids, "Token ids: .npy (sources, length), or text with one source a line");
  command.add_option("--source-features", o->features, "The encoder's only input: .npy");
  command.add_option("--new", o->new_tokens, "Tokens to decode, exactly")->check(at_least(1))->capture_default_str();
  command.add_option("--batch", o->batch, "Sources, repeated from the file; 0: those of the file")
      ->check(CLI::Range(size_t{0}, kMostTogether));
  command.add_option("--beams", o->beams, "Beams (1: greedy)")->check(at_least(1))->capture_default_str();
  command
      .add_option("--alignment-layers", o->alignment_layers,
                  "Give alignments too: the mean over the heads of these layers, from 0; -1: the last")
      ->delimiter(',');
  add_threads(command, o->threads);
  command.add_option("--rounds", o->rounds, "Rounds, of which the medians are given")
      ->check(at_least(1))
      ->capture_default_str();
  command.add_flag("--profile", o->profile, "Print the time of each node in the last round");
  command.add_flag("--cache", o->cache, "Keep packed weights in a file in the folder, for a quick start");
  command.add_flag("--json", o->json, "Print JSON: encode_ms, step_ms, tokens");
  return [o] { return bench(*o); };
}

}  // namespace attune::cli
