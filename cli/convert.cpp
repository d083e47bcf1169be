#include "convert/convert.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/inputs_stay.h"
#include "convert/cache_type.h"
#include "graph/io/npy.h"
#include "graph/io/output_file.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Options {
  std::string source, output, report, target = "attune", weights_type, kv_type, activations, verify_inputs;
  std::vector<std::string> weights, sizes;
  bool explain = false, no_verify = false, add_cache = false, json = false;
  std::optional<double> tolerance;
  int64_t max_rewrites = -1, weights_group = 64;
  int threads = 0;
};

ordered_json to_json(const Verification& v) {
  ordered_json j{{"largest_absolute_difference", v.largest_absolute},
                 {"largest_relative_difference", v.largest_relative},
                 {"tolerance", v.source_limit()},
                 {"passed", v.passed()},
                 {"cases", ordered_json::array()}};
  if (v.reference)
    j["from_float32"] = {
        {"source", v.reference->source}, {"result", v.reference->result}, {"limit", v.reference_limit()}};
  for (const VerifiedCase& c : v.cases) {
    ordered_json row{{"sizes", c.sizes}};
    if (c.refused.empty()) {
      row.update({{"output", c.worst_output}, {"absolute", c.absolute}, {"relative", c.relative}});
    } else {
      row["refused"] = c.refused;
    }
    j["cases"].push_back(std::move(row));
  }
  return j;
}

ordered_json to_json(const ConvertedModel& m) {
  ordered_json j{{"source", m.source.string()}, {"result", m.result.string()}, {"attentions", m.attentions}};
  j["rewrites"] = ordered_json::array();
  for (const Rewrite& r : m.report.rewrites)
    j["rewrites"].push_back({{"rule", r.rule}, {"node", r.node}, {"result", r.result}, {"details", r.details}});
  j["near_misses"] = ordered_json::array();
  for (const NearMiss& n : m.report.near_misses)
    j["near_misses"].push_back(
        {{"rule", n.rule}, {"anchor", n.anchor}, {"path", n.path}, {"value", n.value}, {"reason", n.reason}});
  if (!m.alignment_weights.empty()) j["weights"] = m.alignment_weights;
  if (m.no_cache) j["cache"] = m.no_cache->empty() ? ordered_json(true) : ordered_json(*m.no_cache);
  j["passes"] = m.report.pass_counts;
  j["notes"] = m.report.notes;
  j["narrow_weights"] = {{"count", m.stored.count}, {"sensitive", m.stored.sensitive}};
  j["narrow_caches"] = m.stored_caches;
  if (m.verification) j["verification"] = to_json(*m.verification);
  if (m.rounded) j["verification_of_narrow_weights"] = to_json(*m.rounded);
  return j;
}

ordered_json to_json(const Conversion& c) {
  ordered_json j{{"written", c.written}, {"models", ordered_json::array()}, {"copied", ordered_json::array()}};
  for (const ConvertedModel& m : c.models) j["models"].push_back(to_json(m));
  for (const fs::path& p : c.copied) j["copied"].push_back(p.string());
  return j;
}

void print_verification(const Verification& v) {
  size_t refused = 0;
  for (const VerifiedCase& c : v.cases) refused += c.refused.empty() ? 0 : 1;
  if (v.compared == 0) {
    print_line(
        fmt::format("  NOT verified: the source refuses all {} kinds of made-up inputs, first ({}): {}\n"
                    "  name sizes that it takes (--sizes), or give inputs (--verify-inputs); --no-verify writes the "
                    "result unchecked",
                    v.cases.size(), v.cases.empty() ? "none" : v.cases.front().sizes,
                    v.cases.empty() ? "none" : v.cases.front().refused));
    return;
  }
  print_line(fmt::format(
      "  {} on {} kinds of inputs: largest difference {:.2e}, {:.2e} of the largest value (tolerance {:.2g})",
      v.passed() ? "verified" : "DIFFERS", v.compared, v.largest_absolute, v.largest_relative, v.source_limit()));
  if (v.reference)
    print_line(fmt::format("  from a float32 run: {:.2e} of the largest value, the source {:.2e} (limit {:.2e})",
                           v.reference->result, v.reference->source, v.reference_limit()));
  if (refused > 0) print_line(fmt::format("  {} kinds of inputs the source itself refuses (not counted)", refused));
  if (v.passed()) return;
  for (const VerifiedCase& c : v.cases)
    if (c.refused.empty() && (v.reference || c.relative > v.source_limit()))
      print_line(fmt::format("    {}: output '{}' differs by {:.2e}, {:.2e} of its largest value", c.sizes,
                             c.worst_output, c.absolute, c.relative));
}

void print_model(const ConvertedModel& m, bool explain) {
  print_line(fmt::format("{}: {} attention{} fused", m.source.filename().string(), m.attentions,
                         m.attentions == 1 ? "" : "s"));
  std::map<std::string, size_t> by_rule;
  for (const Rewrite& r : m.report.rewrites) {
    ++by_rule[r.rule];
    if (explain)
      print_line(fmt::format("  {}: {} -> '{}'{}{}", r.rule, r.node, r.result, r.details.empty() ? "" : ": ",
                             fmt::join(r.details, ", ")));
  }
  if (!explain) {
    std::vector<std::string> parts;
    for (const auto& [rule, n] : by_rule) parts.push_back(fmt::format("{} {}", rule, n));
    if (!parts.empty()) print_line(fmt::format("  {}", fmt::join(parts, ", ")));
  }
  for (const NearMiss& n : m.report.near_misses)
    print_line(fmt::format("  left: {}\n    {} stopped at {}{}: {}", n.anchor, n.rule,
                           n.path.empty() ? "the anchor" : n.path,
                           n.value.empty() ? "" : fmt::format(" ('{}')", n.value), n.reason));
  if (!m.alignment_weights.empty()) print_line(fmt::format("  weights: {}", fmt::join(m.alignment_weights, ", ")));
  if (m.no_cache)
    print_line(m.no_cache->empty() ? fmt::format("  with caches: {}", m.result.filename().string())
                                   : fmt::format("  {}", *m.no_cache));
  for (const std::string& note : m.report.notes) print_line(fmt::format("  note: {}", note));
  if (m.verification) print_verification(*m.verification);
  if (m.stored.count > 0)
    print_line(fmt::format(
        "  {} matrices stored narrower{}", m.stored.count,
        m.stored.sensitive > 0 ? fmt::format(" ({} sensitive ones as float16)", m.stored.sensitive) : std::string()));
  if (m.stored_caches > 0)
    print_line(fmt::format("  {} inputs and outputs with keys or values are narrower", m.stored_caches));
  if (m.rounded) print_verification(*m.rounded);
}

// The report must not take the place of a model.
void check_report(const Options& o) {
  if (o.report.empty()) return;
  const fs::path report = fs::weakly_canonical(o.report), source = fs::weakly_canonical(o.source);
  fs::path output = fs::weakly_canonical(o.output);
  if (!output.has_filename()) output = output.parent_path();
  const fs::path folder = report.parent_path();
  const bool beside_models = fs::is_directory(source) && (folder == source || folder == output);
  if (report == source || report == output || report.extension() == ".onnx" ||
      (beside_models && fs::exists(source / report.filename())))
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("--report {}: expected a file of its own, this is one of a model", o.report));
  if (fs::exists(folder) || !(beside_models && folder == output)) check_writable(o.report);
}

// What is read must not be replaced, as far as convert() doesn't look after it.
void check_inputs_stay(const Options& o) {
  std::vector<fs::path> inputs{o.verify_inputs, o.source};
  InputFiles(inputs).check_replaced_by("--report", o.report);
  std::error_code ignored;
  if (fs::is_directory(o.source, ignored) || fs::equivalent(o.source, o.output, ignored)) inputs.pop_back();
  InputFiles(inputs).check_replaced_by("--output", o.output);
}

// Options that would do nothing.
void check_options(const CLI::App& command, const Options& o) {
  const auto refuse = [&](const char* option, bool useless, std::string_view expected) {
    if (useless && command.count(option) > 0)
      throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: expected {}", option, expected));
  };
  refuse("--weights-group", o.weights_type != "int4", "--weights-type int4 with it");
  refuse("--activations", o.weights_type.empty(), "--weights-type with it");
  if (!o.weights_type.empty()) {
    const std::string_view rounded = activations_of(weights_type_from_name(o.weights_type));
    refuse("--activations", o.activations != "float" && o.activations != rounded,
           fmt::format("float or {} with --weights-type {}", rounded, o.weights_type));
  }
  for (const char* option : {"--tolerance", "--sizes", "--verify-inputs"})
    refuse(option, o.no_verify, "it without --no-verify");
  refuse("--sizes", !o.verify_inputs.empty(), "it without --verify-inputs");
  refuse("--verify-inputs", fs::is_directory(o.source), "one model, not a folder");
}

// "batch=2"
GivenSizes parse_sizes(const std::vector<std::string>& given) {
  GivenSizes sizes;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    int64_t size = -1;
    if (equals != std::string::npos) {
      const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
      if (const auto [rest, failure] = std::from_chars(begin, end, size); failure != std::errc() || rest != end)
        size = -1;
    }
    if (size < 1)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("--sizes {}: expected NAME=SIZE of at least 1, as in batch=2", text));
    if (!sizes.emplace(text.substr(0, equals), size).second)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("--sizes {}: expected one size of a name, found another before it", text));
  }
  return sizes;
}

int run(const CLI::App& command, const Options& o) {
  check_options(command, o);
  check_inputs_stay(o);
  check_report(o);
  ConvertOptions options;
  options.target = target_from_name(o.target);
  options.passes.max_rewrites = o.max_rewrites;
  if (!o.weights_type.empty()) options.weights.type = weights_type_from_name(o.weights_type);
  options.weights.group = o.weights_group;
  options.weights.rounded_activations = o.activations != "float";
  if (!o.kv_type.empty()) options.cache_type = cache_type_from_name(o.kv_type);
  options.verify = !o.no_verify;
  options.alignment_weights = o.weights;
  options.add_cache = o.add_cache;
  options.verification.tolerance = o.tolerance;
  options.verification.threads = o.threads;
  options.verification.sizes = parse_sizes(o.sizes);
  if (!o.verify_inputs.empty())
    for (auto& [name, tensor] : read_npz(o.verify_inputs))
      options.verification.inputs.insert_or_assign(name, Datum(std::move(tensor)));
  std::unique_ptr<Progress> progress;
  options.verification.progress = [&](size_t done, size_t total) {
    if (progress) progress->update(done, total);
  };
  const Conversion c = convert(o.source, o.output, options, [&](const fs::path& p) {
    progress = std::make_unique<Progress>(p.filename().string());
  });
  progress.reset();
  const ordered_json report = to_json(c);
  if (!o.report.empty()) {
    // In the output's folder, which isn't there if nothing was written.
    if (const fs::path folder = fs::path(o.report).parent_path(); !folder.empty()) fs::create_directories(folder);
    write_file(o.report, report.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }
  if (o.json) {
    print_ordered_json(report);
  } else {
    for (const ConvertedModel& m : c.models) print_model(m, o.explain);
    print_line(c.written ? fmt::format("wrote {}{}", o.output,
                                       c.copied.empty() ? "" : fmt::format(" with {} other files", c.copied.size()))
                         : "nothing was written");
  }
  return c.written ? kSuccess : kDifference;
}

}  // namespace

Action add_convert(CLI::App& command) {
  auto o = std::make_shared<Options>();
  command.add_option("model", o->source, "an ONNX file, or a folder of them with configuration and tokenizer files")
      ->required();
  command.add_option("-o,--output", o->output, "where the result goes")->required();
  command.add_flag("--explain", o->explain, "print each rewrite");
  command.add_option("--report", o->report, "write what was done, and what was left and why, as JSON");
  command.add_option(
      "--target", o->target,
      "attune (default), portable (runs in ONNX Runtime without attune), onnx (standard operators only)");
  command.add_option(
      "--weights-type", o->weights_type,
      "store matrices of products and embeddings as float16, bfloat16, int8 or int4 (default: as they are)");
  command.add_option("--kv-type", o->kv_type,
                     "keep keys and values of decoders as float16 or bfloat16 (default: as they are)");
  command.add_option("--weights-group", o->weights_group, "int4: rows that share a scale: 32, 64 (default) or 128");
  command
      .add_option("--activations", o->activations,
                  "default: products with narrow weights round their other operand, too, with 16-bit weights to int16, "
                  "with int8 and int4 to int8; float: they don't")
      ->check(CLI::IsMember({"int8", "int16", "float"}));
  command
      .add_option(
          "--weights", o->weights,
          "add alignment weights as outputs: all, configured (the configuration's alignment_heads), layers (2,-1), "
          "or layers with heads (0.3,1.0), counted from 0")
      ->delimiter(',');
  command.add_flag("--add-cache", o->add_cache,
                   "make a decoder without caches one that keeps keys and values, with a file for the steps after the "
                   "first");
  command.add_flag("--no-verify", o->no_verify, "don't run source and result on made-up inputs");
  command
      .add_option("--sizes", o->sizes,
                  "sizes of the made-up inputs that source and result run on, by the names of dimensions (batch=2), or "
                  "INPUT#AXIS=SIZE where the model names none (default: several of each)")
      ->delimiter(',');
  command.add_option("--verify-inputs", o->verify_inputs,
                     "run source and result on these inputs instead: arrays by name in an .npz file");
  command
      .add_option(
          "--tolerance", o->tolerance,
          "Largest difference, relative to the largest value of an output (default: 1e-4; float16 and int8 models: "
          "about as far from a float32 run as the source is)")
      ->check(at_least(0));
  command
      .add_option("--max-rewrites", o->max_rewrites,
                  "stop after so many of the rewrites that --explain lists, to find the one that is wrong; 0: clean up "
                  "alone")
      ->check(at_least(0));
  add_threads(command, o->threads);
  command.add_flag("--json", o->json, "print the report as JSON");
  return [o, &command] { return run(command, *o); };
}

}  // namespace attune::cli
