#include "runtime/diagnosis/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "runtime/diagnosis/head_statistics.h"
#include "runtime/diagnosis/regime.h"
#include "runtime/generator.h"
#include "runtime/rows.h"
#include "runtime/token_inputs.h"

namespace attune {
namespace {

// Rows [begin, begin + count) of every input.
TensorMap part_of_sources(const TensorMap& inputs, size_t begin, size_t count) {
  std::vector<int32_t> rows;
  for (size_t i = begin; i < begin + count; ++i) rows.push_back(static_cast<int32_t>(i));
  TensorMap out;
  for (const auto& [name, datum] : inputs) out[name] = gather_rows(datum.tensor(), rows, nullptr);
  return out;
}

size_t source_count(const TensorMap& inputs) {
  if (inputs.empty()) throw Error(Error::Kind::kInvalidArgument, "there are no inputs to look at");
  const auto& [first, sources] = *inputs.begin();
  for (const auto& [name, datum] : inputs) {
    if (datum.kind() != Datum::Kind::kTensor || datum.tensor().rank() == 0)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("{}: expected a tensor whose first axis counts the sources", name));
    if (datum.tensor().dim(0) != sources.tensor().dim(0))
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("{}: expected {} sources, as '{}' has, got shape {}", name, sources.tensor().dim(0),
                              first, datum.tensor().shape().to_string()));
  }
  return static_cast<size_t>(sources.tensor().dim(0));
}

// Sources that are run together: the weights of all layers are held at once, and grow with the square of the length.
size_t batch_size(const TensorMap& inputs, const DiagnosisOptions& options) {
  constexpr size_t kWeights = size_t{1} << 19;  // of one head
  const auto ids = inputs.find("input_ids");
  if (ids == inputs.end() || ids->second.tensor().rank() != 2) return 1;
  const auto width = static_cast<size_t>(std::max<int64_t>(1, ids->second.tensor().dim(1)));
  return std::clamp<size_t>(kWeights / (width * width), 1, std::max<size_t>(1, options.batch));
}

// Per source and position: whether the token stands for padding, whatever the mask says.
std::vector<std::vector<bool>> padding_of(const TensorMap& inputs, const GenerationOptions& options, size_t count) {
  std::vector<std::vector<bool>> out(count);
  const auto ids = inputs.find("input_ids");
  const auto& eos = options.eos_token_id;
  const bool distinct = options.pad_token_id && std::find(eos.begin(), eos.end(), *options.pad_token_id) == eos.end();
  if (ids == inputs.end() || !distinct || ids->second.tensor().rank() != 2) return out;
  const auto values = ids->second.tensor().to_int64();
  const auto width = static_cast<size_t>(ids->second.tensor().dim(1));
  for (size_t i = 0; i < values.size(); ++i) out[i / width].push_back(values[i] == *options.pad_token_id);
  return out;
}

// The longest stretch that is one sequence of tokens three times or more.
std::optional<Repeat> find_repeat(const std::vector<int64_t>& tokens) {
  constexpr size_t kLongest = 16, kTimes = 3;
  std::optional<Repeat> best;
  for (size_t length = 1; length <= kLongest; ++length) {
    for (size_t at = 0; at + length * kTimes <= tokens.size();) {
      size_t same = 0;  // tokens that equal the one `length` before
      while (at + length + same < tokens.size() && tokens[at + same] == tokens[at + length + same]) ++same;
      const Repeat found{at, length, same / length + 1};
      if (found.times >= kTimes && (!best || found.length * found.times > best->length * best->times)) best = found;
      at += same + 1;
    }
  }
  return best;
}

// Positions that got less than `share` of what each would get if all got the same.
std::vector<size_t> never_attended(const std::vector<double>& coverage, double share) {
  double sum = 0;
  for (const double c : coverage) sum += c;
  std::vector<size_t> out;
  for (size_t i = 0; i < coverage.size(); ++i)
    if (coverage[i] < share * sum / static_cast<double>(coverage.size())) out.push_back(i);
  return out;
}

}  // namespace

Diagnosis diagnose(const std::filesystem::path& folder, const TensorMap& inputs, const DiagnosisOptions& options) {
  const size_t count = source_count(inputs);
  HeadStatistics statistics(padding_of(inputs, Generator::options_of(folder), count));
  size_t first = 0;
  GeneratorOptions load;
  load.session = options.session;
  load.prepare = options.prepare;
  load.observer = [&](const AttentionCall& call) {
    std::vector<size_t> places(call.sources.begin(), call.sources.end());
    for (size_t& p : places) p += first;
    statistics.add({call.tap, call.encoder, call.weights, call.context, places, call.source_mask});
  };
  Generator generator = Generator::load(folder, load);
  GenerationOptions search = generator.defaults();
  search.num_beams = search.num_return_sequences = 1;
  search.do_sample = false;
  if (options.max_new_tokens) search.max_new_tokens = options.max_new_tokens;
  Diagnosis out;
  const size_t batch = batch_size(inputs, options);
  for (; first < count; first += batch)
    for (auto& g : generator.generate(part_of_sources(inputs, first, std::min(batch, count - first)), search)) {
      const auto begin = g.at(0).tokens.begin() + static_cast<std::ptrdiff_t>(g[0].prompt_length);
      out.outputs.push_back({{begin, g[0].tokens.end()}, {}, {}, {}});
    }
  if (statistics.empty())
    throw Error(Error::Kind::kUnsupported,
                "the model has no ai.attune Attention: nothing can be seen of its attention");
  out.heads = statistics.results(options.bounds);
  auto coverage = statistics.coverage();
  for (size_t i = 0; i < out.outputs.size(); ++i) {
    OutputDiagnosis& o = out.outputs[i];
    o.coverage = std::move(coverage[i]);
    o.never_attended = never_attended(o.coverage, options.bounds.never_attended);
    o.repeat = find_repeat(o.tokens);
  }
  if (options.regime) {
    const TensorMap source = part_of_sources(inputs, 0, 1);
    const auto tokens = source_tokens(source);
    out.regime = measure_regime(folder, source, tokens.empty() ? std::vector<int64_t>() : tokens[0], options);
  }
  return out;
}

}  // namespace attune
