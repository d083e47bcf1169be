#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "convert/add_cache.h"
#include "convert/alignment_weights.h"
#include "convert/cache_type.h"
#include "convert/staging.h"
#include "graph/error.h"
#include "graph/io/file_system.h"
#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "ops/infer/infer.h"
#include "ops/portable.h"
#include "runtime/generation_options.h"
#include "runtime/panel_cache.h"
#include "runtime/widen.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(Error::Kind kind, const fs::path& path, std::string_view what) {
  throw Error(kind, fmt::format("{}: {}", path.string(), what));
}

// Operators of ai.attune round what they give to their type. Runtimes that compute halves in float32 don't round what
// an operator of a source gives to the next one: so that they get no less from the result, its values between operators
// are float32.
void widen_activations(Model& model, Target target) {
  bool fused = false;
  model.graph->for_each_node([&](const Node& n) { fused = fused || n.domain() == "ai.attune"; });
  if (!fused || !has_halves(*model.graph)) return;
  const Inference types(model);
  // Standard operators widen caches anyway.
  const HalfCaches caches = target == Target::kAttune ? HalfCaches::kAsStored : HalfCaches::kBehindCasts;
  widen_halves(*model.graph, HalfMatrices::kBehindCasts, caches, [](Node&) {});
  model.graph->sort();
}

// A copy in the form of `target`.
Model with_target(const Model& model, Target target) {
  Model copy = model;
  copy.graph = model.graph->clone();
  apply_target(copy, target);
  return copy;
}

// The heads that the request names, by the configuration beside the model if it says so.
HeadSelection selection(const std::vector<std::string>& weights, const fs::path& source) {
  const WeightsRequest request = weights_request(weights);
  if (!request.configured) return request.heads;
  HeadSelection heads;
  heads.pairs = read_generation_config(source.parent_path()).alignment_heads;
  if (heads.pairs.empty())
    fail(Error::Kind::kInvalidArgument, source.parent_path(), "its configuration has no alignment_heads");
  return heads;
}

// decoder_model.onnx: decoder_with_past_model.onnx; others: NAME_with_past.onnx.
fs::path with_past(const fs::path& file) {
  std::string stem = file.stem().string();
  const size_t end = stem.rfind("_model");
  stem.insert(end == std::string::npos ? stem.size() : end, "_with_past");
  return file.parent_path() / (stem + file.extension().string());
}

// Of the result whose weights, caches or both are narrower.
double rounding_tolerance(const ConvertOptions& options, const Model& source) {
  double tolerance = attune::rounding_tolerance(options.weights.type);
  const auto allow = [&](WeightsType type) { tolerance = std::max(tolerance, attune::rounding_tolerance(type)); };
  if (options.cache_type)
    allow(*options.cache_type == DataType::kFloat16 ? WeightsType::kFloat16 : WeightsType::kBFloat16);
  if (quantises(source)) allow(WeightsType::kInt8);  // what is rounded may fall to another step
  return tolerance;
}

// Throws where the source can't run.
Verification compared(const Model& source, const Model& result, const VerifyOptions& options) {
  Verification v = verify(source, result, options);
  if (v.always_refused)
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("the source refuses inputs of every size: {} (--verify-inputs gives it others, --no-verify "
                            "converts it unchecked)",
                            *v.always_refused));
  return v;
}

// Throws where the file may not be written.
using CheckFile = std::function<void(const fs::path&)>;

// One model on its way from `source` to `result`, for now in the folder `temporary`.
class ModelConversion {
 public:
  // Reads the model. `check_further` is asked whether a file that the caller didn't name may be written.
  ModelConversion(const fs::path& source, const fs::path& result, const fs::path& temporary,
                  const ConvertOptions& options, const CheckFile& check_further)
      : source_(source), result_(result), temporary_(temporary), options_(options), check_further_(check_further) {
    ReadOptions reading;
    reading.external_files = &external_files_;
    model_ = read_model(source, reading);
  }

  std::vector<ConvertedModel> run() {
    ConvertedModel c;
    c.source = source_;
    c.result = result_;
    read_portable(model_);
    optimize(model_, c.report, options_.passes);
    if (options_.add_cache && lacks_cache(model_)) {
      try {
        return run_cached(c);
      } catch (const Error& e) {
        if (e.kind() != Error::Kind::kUnsupported) throw;
        c.no_cache = e.message();
      }
    }
    finish(model_, c, true);
    std::vector<ConvertedModel> out;
    out.push_back(std::move(c));
    return out;
  }
  const std::set<fs::path>& external_files() const { return external_files_; }

 private:
  // Adds weights as outputs, narrows, lowers and writes a model; compares it with the source, if it takes the same
  // inputs.
  void finish(Model& model, ConvertedModel& c, bool compare) const {
    model.graph->for_each_node([&](const Node& n) { c.attentions += n.is("Attention", "ai.attune") ? 1 : 0; });
    if (!options_.alignment_weights.empty())
      c.alignment_weights = add_weights(model, selection(options_.alignment_weights, source_));
    widen_activations(model, options_.target);
    const fs::path written = temporary_ / c.result.filename();
    const bool rounds = options_.weights.type != WeightsType::kUnchanged || options_.cache_type;
    compare = compare && options_.verify;
    const Model original = compare ? read_model(source_) : Model();
    if (rounds && compare)
      c.verification = compared(original, with_target(model, options_.target), options_.verification);
    c.stored = store_weights(model, options_.weights);
    if (options_.weights.type != WeightsType::kUnchanged && c.stored.count == 0)
      c.report.notes.push_back(
          "no weights were stored narrower: only float32 matrices are, as float16 if they lie within its range");
    if (options_.cache_type) c.stored_caches = store_caches(model, *options_.cache_type);
    const int64_t opset = model.opset();
    apply_target(model, options_.target);
    if (model.opset() > opset)
      c.report.notes.push_back(
          fmt::format("opset {} became {}: the target's standard operators need it", opset, model.opset()));
    write_model(model, written, options_.writing);
    if (!compare) return;
    VerifyOptions how = options_.verification;
    if (rounds && !how.tolerance) how.tolerance = rounding_tolerance(options_, original);
    (rounds ? c.rounded : c.verification) = compared(original, read_model(written), how);
  }

  std::vector<ConvertedModel> run_cached(ConvertedModel first) const {
    CachedDecoder parts = add_cache(model_);
    first.no_cache = std::string();
    ConvertedModel next;
    next.source = source_;
    next.result = with_past(result_);
    next.no_cache = std::string();
    if (fs::exists(with_past(source_)))
      throw Error(Error::Kind::kUnsupported,
                  fmt::format("{} is there already", with_past(source_).filename().string()));
    check_further_(next.result);
    if (options_.verify) {
      Verification v;
      v.tolerance = options_.verification.tolerance.value_or(default_tolerance(model_));
      v.compared = 1;
      v.largest_relative = compare_steps(model_, parts);
      v.cases.push_back({"token by token", {}, {}, 0, v.largest_relative});
      next.verification = std::move(v);
    }
    finish(parts.first, first, true);
    finish(parts.next, next, false);
    std::vector<ConvertedModel> out;
    out.push_back(std::move(first));
    out.push_back(std::move(next));
    return out;
  }

  const fs::path &source_, &result_, &temporary_;
  const ConvertOptions& options_;
  const CheckFile& check_further_;
  Model model_;
  std::set<fs::path> external_files_;
};

bool passed(const std::vector<ConvertedModel>& models) {
  return std::all_of(models.begin(), models.end(), [](const ConvertedModel& m) { return m.passed(); });
}

// Throws where weights were asked for and no model could give them.
void check_weights(const std::vector<ConvertedModel>& models, const ConvertOptions& options) {
  const bool given =
      std::any_of(models.begin(), models.end(), [](const ConvertedModel& m) { return !m.alignment_weights.empty(); });
  if (!options.alignment_weights.empty() && !given)
    throw Error(Error::Kind::kInvalidArgument,
                "weights were asked for, but there is no cross-attention that could give them");
}

// Options that changed nothing.
void add_notes(Conversion& c, const ConvertOptions& options) {
  const auto note_unless = [&](bool asked, auto changed, const char* note) {
    if (asked && std::none_of(c.models.begin(), c.models.end(), changed))
      for (ConvertedModel& m : c.models) m.report.notes.emplace_back(note);
  };
  note_unless(
      options.cache_type.has_value(), [](const ConvertedModel& m) { return m.stored_caches > 0; },
      "no keys and values were stored narrower: only float32 ones are, that decoders take as their past or give");
  note_unless(
      options.add_cache, [](const ConvertedModel& m) { return m.no_cache.has_value(); },
      "no cache was added: only decoders that take tokens and the encoder's states, and no past, get one");
}

// Names beside "out/" and "out/." are made from "out".
fs::path without_final_separator(fs::path path) {
  while ((!path.has_filename() || path.filename() == ".") && path.has_parent_path() && path != path.parent_path())
    path = path.parent_path();
  return path;
}

bool inside(const fs::path& path, const fs::path& folder) {
  const fs::path p = fs::weakly_canonical(path), f = fs::weakly_canonical(folder);
  return std::mismatch(f.begin(), f.end(), p.begin(), p.end()).first == f.end();
}

// Throws if `written` is the source, or a file of it.
void check_is_not(const fs::path& written, const fs::path& source) {
  std::error_code ignored;
  if (fs::equivalent(source, written, ignored))
    fail(Error::Kind::kInvalidArgument, written, "is the source, which would be lost; expected another name");
}

// The file that a link names.
fs::path behind_links(const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::is_symlink(file, error) ? fs::canonical(file, error) : file;
  return error ? file : target;
}

// Models of an earlier conversion would be used together with those of this one. `written`: names of files.
void check_replaces_models(const fs::path& output, const std::set<fs::path>& written) {
  io(output, [&] {
    if (!fs::exists(output)) return;
    for (const auto& entry : fs::directory_iterator(output))
      if (entry.path().extension() == ".onnx" && !written.contains(entry.path().filename()))
        fail(Error::Kind::kInvalidArgument, output,
             fmt::format("holds {}, which this conversion doesn't write and generation would take for one of its "
                         "models; expected a new folder, or to have it removed",
                         entry.path().filename().string()));
  });
}

Conversion convert_file(const fs::path& source, const fs::path& given_output, const ConvertOptions& options,
                        const std::function<void(const fs::path&)>& started) {
  const fs::path output = behind_links(given_output);
  if (io(output, [&] { return fs::is_directory(output); }))
    fail(Error::Kind::kInvalidArgument, output, "is a folder; a model needs a file name");
  if (io(output, [&] { return fs::exists(output) && !fs::is_regular_file(output); }))
    fail(Error::Kind::kInvalidArgument, output,
         "is no regular file; a model is written beside its name and then renamed");
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!io(folder, [&] { return fs::is_directory(folder); }))
    fail(Error::Kind::kIo, folder, fs::exists(folder) ? "is not a folder" : "no such folder");
  check_is_not(output, source);
  Staging staging(folder);
  if (started) started(source);
  const CheckFile unused = [](const fs::path& file) {
    if (io(file, [&] { return fs::exists(file); }))
      fail(Error::Kind::kInvalidArgument, file,
           "is there already, and would get the steps after the first; expected another output, or to have it removed");
  };
  ModelConversion conversion(source, output, staging.path(), options, unused);
  Conversion c;
  c.models = within(source.string(), [&] { return conversion.run(); });
  check_weights(c.models, options);
  add_notes(c, options);
  if (!passed(c.models)) return c;
  io(staging.path(), [&] {
    for (const auto& entry : fs::directory_iterator(staging.path()))
      for (const fs::path& data : conversion.external_files()) check_is_not(folder / entry.path().filename(), data);
  });
  staging.commit();
  c.written = true;
  return c;
}

Conversion convert_folder(const fs::path& source, const fs::path& output, const ConvertOptions& options,
                          const std::function<void(const fs::path&)>& started) {
  if (inside(output, source)) fail(Error::Kind::kInvalidArgument, output, "lies in the source folder");
  if (io(output, [&] { return fs::exists(output) && !fs::is_directory(output); }))
    fail(Error::Kind::kInvalidArgument, output, "is a file; the models of a folder need a folder");
  std::vector<fs::path> models, others;
  io(source, [&] {
    for (const auto& entry : fs::directory_iterator(source)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file()) continue;
      if (extension == ".onnx") {
        models.push_back(entry.path());
      } else if (extension != ".onnx_data" && extension != ".data" && extension != kPanelCacheExtension) {
        others.push_back(entry.path());
      }
    }
  });
  if (models.empty()) fail(Error::Kind::kInvalidArgument, source, "has no .onnx file");
  std::sort(models.begin(), models.end());
  std::sort(others.begin(), others.end());

  std::set<fs::path> names, external;
  for (const fs::path& model : models) {
    names.insert(model.filename());
    if (options.add_cache) names.insert(with_past(model).filename());
  }
  check_replaces_models(output, names);

  Staging staging(output);
  Conversion c;
  for (const fs::path& model : models) {
    if (started) started(model);
    const fs::path result = output / model.filename();
    const CheckFile any = [](const fs::path&) {};  // files of an existing folder are replaced
    ModelConversion conversion(model, result, staging.path(), options, any);
    for (ConvertedModel& m : within(model.string(), [&] { return conversion.run(); })) c.models.push_back(std::move(m));
    for (const fs::path& data : conversion.external_files()) external.insert(fs::weakly_canonical(data));
  }
  check_weights(c.models, options);
  add_notes(c, options);
  if (!passed(c.models)) return c;
  names.clear();
  for (const ConvertedModel& m : c.models) names.insert(m.result.filename());
  check_replaces_models(output, names);
  for (const fs::path& other : others) {
    if (external.contains(fs::weakly_canonical(other))) continue;
    io(other, [&] { fs::copy_file(other, staging.path() / other.filename()); });
    c.copied.push_back(output / other.filename());
  }
  staging.commit();
  c.written = true;
  return c;
}

}  // namespace

void fuse(Model& model) {
  read_portable(model);
  bool fused = false;
  model.graph->for_each_node([&](const Node& n) { fused = fused || n.is("Attention", "ai.attune"); });
  Report report;
  if (!fused) optimize(model, report);
}

Conversion convert(const fs::path& source, const fs::path& given_output, const ConvertOptions& options,
                   const std::function<void(const fs::path&)>& started) {
  if (given_output.empty()) throw Error(Error::Kind::kInvalidArgument, "expected a name for the result, found ''");
  const fs::path output = without_final_separator(given_output);
  if (!io(source, [&] { return fs::exists(source); }))
    fail(Error::Kind::kIo, source, "there is no such file or folder");
  return io(source, [&] { return fs::is_directory(source); }) ? convert_folder(source, output, options, started)
                                                              : convert_file(source, output, options, started);
}

}  // namespace attune
