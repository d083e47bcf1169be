#include "runtime/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "graph/io/file_system.h"
#include "graph/io/reader.h"
#include "ops/portable.h"
#include "runtime/decoder.h"
#include "runtime/folder.h"
#include "runtime/panel_cache.h"
#include "runtime/profile.h"
#include "runtime/shortlist.h"
#include "runtime/source_batch.h"
#include "runtime/whole_model.h"

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

std::filesystem::path configuration_folder(const std::filesystem::path& folder) {
  const auto there = [](const std::filesystem::path& f) {
    return io(f, [&] {
      return std::filesystem::exists(f / "generation_config.json") || std::filesystem::exists(f / "config.json");
    });
  };
  return !there(folder) && there(folder / "..") ? folder / ".." : folder;
}

// The files of a folder that weights may come from.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder,
                                                const std::filesystem::path& cache) {
  std::vector<std::filesystem::path> files;
  io(folder, [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path& p = entry.path();
      const bool hidden = p.filename().string().starts_with('.');
      if (entry.is_regular_file() && !hidden && p.extension() != ".json" && p.extension() != cache.extension())
        files.push_back(p);
    }
  });
  std::sort(files.begin(), files.end());
  return files;
}

size_t count_sources(const std::vector<SourceBatch>& batches) {
  size_t count = 0;
  for (const SourceBatch& b : batches) count += b.sources.size();
  return count;
}

}  // namespace

struct Generator::Impl {
  explicit Impl(const GeneratorOptions& o) : options(o) {}

  void load(const ModelFiles& files, const KernelOptions& kernels);
  void open_sessions();
  std::vector<std::vector<Generation>> generate(const TensorMap& inputs, const GenerationOptions& o,
                                                const TokenCallback& callback);
  void generate_group(const SourceBatch& batch, EncodedSources sources, const GenerationOptions& o,
                      const TokenCallback& callback, std::vector<std::vector<Generation>>& results);
  std::vector<std::vector<int64_t>> prompts(const SourceBatch& batch, const GenerationOptions& o) const;
  void check_request(const GenerationOptions& o, const std::vector<SourceBatch>& batches) const;
  EncodedSources encode(const SourceBatch& batch);
  EncodedSources encode_timed(const SourceBatch& batch);
  void show_encoder(const EncodedSources& sources) const;
  Generation finish(Hypothesis hypothesis, size_t prompt_length, bool alignment) const;
  Model read(const std::filesystem::path& file) const;
  AttentionTaps tap(Model& model, bool encoder) const;

  GeneratorOptions options;
  GenerationOptions defaults;
  GenerationTiming timing;
  std::shared_ptr<const Plan> encoder_plan, whole_plan;
  std::shared_ptr<const DecoderPlans> decoder_plans;
  AttentionTaps encoder_taps;
  std::shared_ptr<const Shortlist> shortlist;  // null: none
  std::unique_ptr<Session> encoder;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<WholeModel> whole;
};

Model Generator::Impl::read(const std::filesystem::path& file) const {
  Model model = read_model(file);
  read_portable(model);
  if (options.prepare) within([&] { return file.filename().string(); }, [&] { options.prepare(model); });
  return model;
}

AttentionTaps Generator::Impl::tap(Model& model, bool encoder) const {
  const bool observed = static_cast<bool>(options.observer);
  if (!observed && (encoder || !options.alignments)) return {};
  TapOptions o;
  o.encoder = encoder;
  o.self = o.contexts = observed;
  o.each_head = options.each_head || observed;
  // Each head of every layer is wanted: the selection is then only for the mean.
  if (!o.each_head) o.cross = options.alignment_heads;
  return tap_attention(*model.graph, o);
}

void Generator::Impl::load(const ModelFiles& files, const KernelOptions& kernels) {
  if (options.alignment_heads.empty()) options.alignment_heads.pairs = defaults.alignment_heads;
  PlanOptions plan_options;
  plan_options.kernels = kernels;
  const auto compile = [&](const std::filesystem::path& file, const Model& model) {
    return within(file.filename().string(), [&] { return Plan::compile(model, plan_options); });
  };
  if (!files.whole.empty()) {
    whole_plan = compile(files.whole, read(files.whole));
    return;
  }
  Model source = read(files.encoder);
  encoder_taps = tap(source, true);
  encoder_plan = compile(files.encoder, source);
  std::optional<Model> first, with_past;
  if (!files.decoder.empty()) first = read(files.decoder);
  if (!files.decoder_with_past.empty()) with_past = read(files.decoder_with_past);
  DecoderModels models{
      first ? &*first : &*with_past, first && with_past ? &*with_past : nullptr, shortlist != nullptr, {}, {}};
  models.first_taps = tap(first ? *first : *with_past, false);
  if (models.with_past) models.with_past_taps = tap(*with_past, false);
  std::vector<Plan::Port> encoded = encoder_plan->outputs();
  encoded.resize(encoded.size() - encoder_taps.added_outputs);
  decoder_plans = within("decoder", [&] {
    return std::make_shared<const DecoderPlans>(models, DecoderGraph{encoder_plan->inputs(), encoded}, kernels);
  });
}

void Generator::Impl::open_sessions() {
  if (whole_plan) {
    whole = std::make_unique<WholeModel>(whole_plan, options.session);
    return;
  }
  encoder = std::make_unique<Session>(encoder_plan, options.session);
  decoder = std::make_unique<Decoder>(decoder_plans, options.session);
  if (options.observer) decoder->observe(options.observer);
}

// The tokens that each source's output starts with.
std::vector<std::vector<int64_t>> Generator::Impl::prompts(const SourceBatch& batch, const GenerationOptions& o) const {
  const std::optional<int64_t> start = o.decoder_start_token_id ? o.decoder_start_token_id : o.bos_token_id;
  std::vector<std::vector<int64_t>> out;
  for (const size_t source : batch.sources) {
    std::vector<int64_t> prompt;
    if (!o.decoder_input_ids.empty()) prompt = o.decoder_input_ids[o.decoder_input_ids.size() == 1 ? 0 : source];
    if (start && !o.prompt_as_is && (prompt.empty() || prompt[0] != *start)) prompt.insert(prompt.begin(), *start);
    if (start && prompt.empty()) prompt.push_back(*start);
    for (const auto& [position, token] : o.forced_decoder_ids)
      if (position == static_cast<int64_t>(prompt.size())) prompt.push_back(token);
    if (prompt.empty())
      throw Error(Error::Kind::kInvalidArgument,
                  "no decoder_start_token_id, bos_token_id or decoder_input_ids is given");
    out.push_back(std::move(prompt));
  }
  return out;
}

EncodedSources Generator::Impl::encode(const SourceBatch& batch) {
  EncodedSources sources;
  sources.inputs = batch.encoder_inputs;
  sources.mask = batch.mask;
  sources.count = batch.sources.size();
  sources.places = batch.sources;
  for (const auto& ids : batch.ids)
    if (shortlist) sources.allowed.push_back(shortlist->allowed(ids));
  std::vector<Datum> inputs = sources.inputs;
  const auto what = [&] {
    return batch.has_ids ? fmt::format("encoder, {} tokens a source", batch.mask.dim(1)) : std::string("encoder");
  };
  within(what, [&] { encoder->run(inputs, sources.outputs); });
  for (Datum& d : sources.outputs)
    if (d.kind() == Datum::Kind::kTensor) d = d.tensor().to_contiguous();
  // Features (audio, pictures) have no mask of their own: every state of the encoder is a position.
  if (!batch.has_ids) {
    const Tensor& memory = sources.outputs.at(0).tensor();
    if (memory.rank() == 0 || static_cast<size_t>(memory.dim(0)) != sources.count)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("encoder: expected states of {} sources, as its inputs have, got shape {}", sources.count,
                              memory.shape().to_string()));
    const int64_t length = memory.rank() > 1 ? memory.dim(1) : 1;
    const std::vector<int64_t> ones(static_cast<size_t>(memory.dim(0) * length), 1);
    sources.mask = Tensor::from<int64_t>({memory.dim(0), length}, ones);
  }
  if (options.observer) show_encoder(sources);
  return sources;
}

void Generator::Impl::show_encoder(const EncodedSources& sources) const {
  for (const AttentionTap& t : encoder_taps.taps)
    options.observer({t, true, sources.outputs[t.weights].tensor(), sources.outputs[t.context].tensor(), sources.places,
                      sources.mask});
}

Generation Generator::Impl::finish(Hypothesis hypothesis, size_t prompt_length, bool alignment) const {
  Generation g{std::move(hypothesis.tokens), prompt_length, hypothesis.score, {}, {}, {}};
  g.log_probabilities = std::move(hypothesis.log_probabilities);
  for (size_t t = 0; alignment && t < hypothesis.rows.size(); ++t) {
    const auto row = static_cast<size_t>(hypothesis.rows[t]);
    g.alignment.push_back(decoder->alignment(t, row));
    auto heads = decoder->head_alignments(t, row);
    if (t == 0)
      for (const HeadWeights& h : heads) g.heads.push_back({h.layer, h.head, {}});
    for (size_t i = 0; i < heads.size(); ++i) g.heads[i].weights.push_back(std::move(heads[i].weights));
  }
  return g;
}

EncodedSources Generator::Impl::encode_timed(const SourceBatch& batch) {
  const auto started = Clock::now();
  EncodedSources sources = encode(batch);
  timing.encode_ms += milliseconds(started);
  if (options.session.profile) timing.encoder_events = options.session.profile->events().size();
  return sources;
}

void Generator::Impl::generate_group(const SourceBatch& batch, EncodedSources sources, const GenerationOptions& o,
                                     const TokenCallback& callback, std::vector<std::vector<Generation>>& results) {
  const auto decoding = Clock::now();
  const auto starts = prompts(batch, o);
  AlignmentRequest alignments;
  if (o.output_alignments) alignments = {true, options.each_head, options.alignment_heads};
  decoder->start(std::move(sources), std::move(alignments));
  const TokenCallback in_order = [&](size_t source, size_t sequence, int64_t token) {
    callback(batch.sources[source], sequence, token);
  };
  std::vector<int64_t> limits;
  for (const auto& ids : batch.ids)
    if (o.max_length_factor)
      limits.push_back(static_cast<int64_t>(std::min(std::ceil(*o.max_length_factor * static_cast<double>(ids.size())),
                                                     static_cast<double>(kLongestOutput))));
  auto found = search(*decoder, starts, o, callback ? in_order : TokenCallback(), limits, batch.ids);
  for (size_t i = 0; i < found.size(); ++i)
    for (Hypothesis& h : found[i]) {
      timing.steps = std::max(timing.steps, h.rows.size());
      results[batch.sources[i]].push_back(finish(std::move(h), starts[i].size(), o.output_alignments));
    }
  timing.decode_ms += milliseconds(decoding);
}

void Generator::Impl::check_request(const GenerationOptions& o, const std::vector<SourceBatch>& batches) const {
  check(o);
  const size_t prompts = o.decoder_input_ids.size(), count = count_sources(batches);
  if (prompts > 1 && prompts != count)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("decoder_input_ids: {} prompts, but {} sources", prompts, count));
  if (o.output_alignments && (whole || !decoder->gives_alignments()))
    throw Error(Error::Kind::kUnsupported,
                "the model gives no alignments: its decoder has no fused cross-attention and no output with weights");
}

std::vector<std::vector<Generation>> Generator::Impl::generate(const TensorMap& inputs, const GenerationOptions& o,
                                                               const TokenCallback& callback) {
  timing = {};
  const auto& ports = whole ? whole->inputs() : encoder->plan().inputs();
  const auto batches = make_batches(inputs, ports, o);
  check_request(o, batches);
  std::vector<std::vector<Generation>> results(count_sources(batches));
  for (const SourceBatch& batch : batches) {
    if (!whole) {
      generate_group(batch, encode_timed(batch), o, callback, results);
      continue;
    }
    const auto started = Clock::now();
    auto tokens = whole->run(batch, o);
    timing.decode_ms += milliseconds(started);
    for (size_t i = 0; i < tokens.size(); ++i)
      results[batch.sources[i]].push_back({std::move(tokens[i]), 0, std::nullopt, {}, {}, {}});
  }
  return results;
}

Generator::Generator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

Generator Generator::load(const std::filesystem::path& folder, const GeneratorOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  impl->defaults = options_of(folder);
  within(folder.string(), [&] {
    if (auto shortlist = Shortlist::load(folder))
      impl->shortlist = std::make_shared<const Shortlist>(std::move(*shortlist));
    KernelOptions kernels = options.kernels;
    std::shared_ptr<PanelCache> cache;
    if (options.cache) {
      const std::filesystem::path file = panel_cache_file(folder);
      const std::string which = fmt::format("alignments {}, observer {}, prepare {}, shortlist {}", options.alignments,
                                            static_cast<bool>(options.observer), static_cast<bool>(options.prepare),
                                            impl->shortlist != nullptr);
      cache = std::make_shared<PanelCache>(file, weight_files(folder, file), which);
      kernels.panel_store = cache;
    }
    impl->load(find_model_files(folder), kernels);
    if (cache) within(panel_cache_file(folder).filename().string(), [&] { cache->save(); });
    impl->open_sessions();
  });
  return Generator(std::move(impl));
}

Generator Generator::replica() const {
  auto copy = std::make_unique<Impl>(impl_->options);
  copy->options.session.profile = nullptr;
  copy->defaults = impl_->defaults;
  copy->encoder_plan = impl_->encoder_plan;
  copy->whole_plan = impl_->whole_plan;
  copy->decoder_plans = impl_->decoder_plans;
  copy->encoder_taps = impl_->encoder_taps;
  copy->shortlist = impl_->shortlist;
  copy->open_sessions();
  return Generator(std::move(copy));
}

std::vector<std::vector<Generation>> Generator::generate(const TensorMap& inputs, const GenerationOptions& options,
                                                         const TokenCallback& callback) {
  return impl_->generate(inputs, options, callback);
}

struct Generator::Encoded::Batches {
  std::vector<SourceBatch> batches;
  std::vector<EncodedSources> encoded;  // one for each
};

Generator::Encoded Generator::encode(const TensorMap& inputs) {
  if (impl_->whole)
    throw Error(Error::Kind::kUnsupported, "a model that loops by itself has no encoder that could run alone");
  auto batches = std::make_shared<Encoded::Batches>();
  batches->batches = make_batches(inputs, impl_->encoder->plan().inputs(), impl_->defaults);
  impl_->timing = {};
  for (const SourceBatch& b : batches->batches) batches->encoded.push_back(impl_->encode_timed(b));
  return Encoded(std::move(batches));
}

std::vector<std::vector<Generation>> Generator::generate(const Encoded& sources, const GenerationOptions& options,
                                                         const TokenCallback& callback) {
  impl_->check_request(options, sources.batches_->batches);
  impl_->timing = {};
  std::vector<std::vector<Generation>> results(count_sources(sources.batches_->batches));
  for (size_t i = 0; i < sources.batches_->batches.size(); ++i)
    impl_->generate_group(sources.batches_->batches[i], sources.batches_->encoded[i], options, callback, results);
  return results;
}

std::vector<std::vector<float>> Generator::next_token_scores(const Encoded& sources,
                                                             const std::vector<std::vector<int64_t>>& prompts) {
  std::vector<std::vector<float>> out(prompts.size());
  for (size_t b = 0; b < sources.batches_->batches.size(); ++b) {
    const SourceBatch& batch = sources.batches_->batches[b];
    std::vector<std::vector<int64_t>> own;
    for (const size_t source : batch.sources) {
      if (source >= prompts.size() || prompts[source].empty() || prompts[source].size() != prompts[0].size())
        throw Error(Error::Kind::kInvalidArgument, "expected a prompt for each source, all equally long");
      own.push_back(prompts[source]);
    }
    impl_->decoder->start(sources.batches_->encoded[b]);
    const Scores scores = impl_->decoder->step(own, {});
    for (size_t i = 0; i < batch.sources.size(); ++i) {
      const auto row = scores.row(i);
      out[batch.sources[i]].assign(row.begin(), row.end());
    }
  }
  return out;
}

std::vector<std::vector<float>> Generator::next_token_scores(const TensorMap& inputs,
                                                             const std::vector<std::vector<int64_t>>& prompts) {
  return next_token_scores(encode(inputs), prompts);
}

GenerationOptions Generator::options_of(const std::filesystem::path& folder) {
  return read_generation_config(configuration_folder(folder));
}

const GenerationOptions& Generator::defaults() const { return impl_->defaults; }
const GenerationTiming& Generator::timing() const { return impl_->timing; }

std::vector<std::vector<int64_t>> padded_sequences(const std::vector<std::vector<Generation>>& generations,
                                                   const GenerationOptions& options) {
  std::vector<std::vector<int64_t>> rows;
  for (const auto& source : generations)
    for (const Generation& g : source) rows.push_back(g.tokens);
  size_t longest = 0;
  for (const auto& r : rows) longest = std::max(longest, r.size());
  const int64_t end = options.eos_token_id.empty() ? -1 : options.eos_token_id.front();
  int64_t fill = options.pad_token_id.value_or(end);
  if (options.num_beams > 1 && fill == 0) fill = end;
  for (auto& r : rows) r.resize(longest, fill);
  return rows;
}

}  // namespace attune
