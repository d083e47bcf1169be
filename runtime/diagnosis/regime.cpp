#include "runtime/diagnosis/regime.h"

#include <algorithm>
#include <map>

#include "graph/error.h"
#include "ops/support/attention_inputs.h"
#include "runtime/generator.h"
#include "runtime/profile.h"

namespace attune {
namespace {

// The projections within an Attention node: multiplications per position of what is projected.
struct Projections {
  double query = 0, key = 0, value = 0;
  double heads = 1;
  double weights() const { return query + key + value; }
};
using ProjectionsByNode = std::map<std::string, Projections>;

void note_projections(const Model& model, ProjectionsByNode& into) {
  const auto size = [](const Node& n, AttentionInput input) {
    const Value* v = n.input(input);
    const Tensor* w = v ? v->constant() : nullptr;
    return w ? static_cast<double>(w->count()) : 0.0;
  };
  model.graph->for_each_node([&](const Node& n) {
    if (n.is("Attention", "ai.attune"))
      into[n.label()] = {size(n, kAttentionQueryWeight), size(n, kAttentionKeyWeight), size(n, kAttentionValueWeight),
                         static_cast<double>(n.attr_int("num_heads", 1))};
  });
}

constexpr int kRounds = 3;

bool is_attention(const ProfileEvent& e) { return e.op == "ai.attune.Attention" && !e.inputs.empty(); }

double size(const Shape& s, int axis_from_end) {
  const auto axis = static_cast<int>(s.rank()) - axis_from_end;
  return axis < 0 ? 0 : static_cast<double>(s[static_cast<size_t>(axis)]);
}

// The length of a sequence: (batch, length, width), or (batch, heads, length, width).
double length(const Shape& s) { return size(s, 2); }
double batch(const Shape& s) { return s.empty() ? 0 : static_cast<double>(s[0]); }

const Shape& shape(const ProfileEvent& e, size_t input) {
  static const Shape kNone;
  return input < e.inputs.size() ? e.inputs[input] : kNone;
}

// Floating point operations of the projections that were computed in this call: keys that come split were projected
// elsewhere.
double projection_flops(const ProfileEvent& e, const Projections& p) {
  const Shape& query = shape(e, kAttentionQuery);
  const Shape& key = shape(e, kAttentionKey).empty() ? query : shape(e, kAttentionKey);
  double flops = query.rank() == 3 ? 2 * batch(query) * length(query) * p.query : 0;
  if (key.rank() == 3) flops += 2 * batch(key) * length(key) * (p.key + p.value);
  return flops;
}

// Splits calls into attention proper and the rest. A node's projections take the time that as many operations take in
// the products outside of attentions.
Cost cost_of(std::span<const ProfileEvent> events, const ProjectionsByNode& projections) {
  double product_flops = 0, product_us = 0;
  for (const ProfileEvent& e : events)
    if (!is_attention(e) && e.flops() > 0) {
      product_flops += e.flops();
      product_us += e.microseconds();
    }
  Cost cost;
  for (const ProfileEvent& e : events) {
    const double ms = e.microseconds() / 1000;
    if (!is_attention(e)) {
      // The time of a body's nodes is in that of the node with the body.
      if (e.op == "If" || e.op == "Loop" || e.op == "Scan") continue;
      cost.other_ms += ms;
      cost.other_bytes += e.bytes;
      continue;
    }
    const auto found = projections.find(e.label);
    const Projections p = found == projections.end() ? Projections() : found->second;
    const double flops = projection_flops(e, p);
    const double projected = product_flops > 0 ? std::min(ms, flops / product_flops * product_us / 1000) : 0;
    const double weights = flops > 0 ? std::min(e.bytes, 4 * p.weights()) : 0;
    cost.attention_ms += ms - projected;
    cost.other_ms += projected;
    cost.attention_bytes += e.bytes - weights;
    cost.other_bytes += weights;
    const Shape& query = shape(e, kAttentionQuery);
    const Shape& key = shape(e, kAttentionKey).empty() ? query : shape(e, kAttentionKey);
    const double heads = query.rank() == 4 ? size(query, 3) : p.heads;
    cost.score_bytes += 4 * batch(query) * heads * length(query) * (length(key) + length(shape(e, kAttentionPastKey)));
  }
  return cost;
}

TensorMap source_of(const std::vector<int64_t>& ids, int64_t length) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(ids[static_cast<size_t>(i) % ids.size()]);
  const Shape shape{1, length};
  return {{"input_ids", Tensor::from<int64_t>(shape, tokens)},
          {"attention_mask", Tensor::from<int64_t>(shape, std::vector<int64_t>(tokens.size(), 1))}};
}

// The events of each step: a step ends with the call that the last one ends with.
std::vector<std::span<const ProfileEvent>> steps_of(std::span<const ProfileEvent> events) {
  std::vector<std::span<const ProfileEvent>> out;
  size_t begin = 0;
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].label == events.back().label) {
      out.push_back(events.subspan(begin, i + 1 - begin));
      begin = i + 1;
    }
  return out;
}

// Of each number: other work on the machine moves single calls by far.
Cost median(const std::vector<Cost>& costs) {
  const auto of = [&](double Cost::*number) {
    std::vector<double> values;
    for (const Cost& c : costs) values.push_back(c.*number);
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  return {of(&Cost::attention_ms), of(&Cost::other_ms), of(&Cost::attention_bytes), of(&Cost::other_bytes),
          of(&Cost::score_bytes)};
}

// The costs of the rounds over one source: of the encoder, and of each quarter of the output.
struct Rounds {
  static constexpr size_t kParts = 4;
  std::vector<Cost> encoder;
  std::vector<Cost> parts[kParts];
  size_t steps = 0;  // in a part

  // The first step, which computes what the source gives, is left out.
  void add(std::span<const ProfileEvent> events, size_t encoder_events, const ProjectionsByNode& projections) {
    encoder.push_back(cost_of(events.first(encoder_events), projections));
    const auto all = steps_of(events.subspan(encoder_events));
    steps = all.empty() ? 0 : (all.size() - 1) / kParts;
    for (size_t part = 0; part < kParts; ++part)
      for (size_t i = 0; i < steps; ++i) parts[part].push_back(cost_of(all[1 + part * steps + i], projections));
  }

  void add_to(Regime& regime, int64_t source) const {
    regime.encoder.push_back({source, 0, median(encoder)});
    for (size_t part = 0; part < kParts && steps > 0; ++part)
      regime.step.push_back({source, static_cast<int64_t>(1 + part * steps + steps / 2), median(parts[part])});
  }
};

// The largest target up to `longest` that the decoder has positions for.
int64_t possible_target(Generator& generator, const TensorMap& inputs, GenerationOptions search, int64_t longest) {
  constexpr int64_t kShortest = 8;
  for (int64_t target = longest;; target /= 2) {
    search.max_new_tokens = target;
    try {
      generator.generate(inputs, search);
      return target;
    } catch (const Error&) {
      if (target / 2 < kShortest) throw;
    }
  }
}

// What the decoder attends to, if that isn't known beforehand: the longest keys of its first step.
int64_t source_positions(const std::vector<ProfileEvent>& events, size_t encoder_events) {
  const auto steps = steps_of(std::span(events).subspan(encoder_events));
  double longest = 0;
  for (const ProfileEvent& e : steps.empty() ? std::span<const ProfileEvent>() : steps.front())
    if (is_attention(e)) longest = std::max(longest, length(shape(e, kAttentionKey)));
  return static_cast<int64_t>(longest);
}

void find_crossings(Regime& regime) {
  std::vector<double> x, attention, rest;
  for (const RegimePoint& p : regime.encoder) {
    x.push_back(static_cast<double>(p.source));
    attention.push_back(p.cost.attention_ms);
    rest.push_back(p.cost.other_ms);
  }
  regime.encoder_crossing = crossing(x, attention, rest);
  std::map<int64_t, std::vector<const RegimePoint*>> by_source;
  for (const RegimePoint& p : regime.step) by_source[p.source].push_back(&p);
  for (const auto& [source, points] : by_source) {
    x.clear(), attention.clear(), rest.clear();
    for (const RegimePoint* p : points) {
      x.push_back(static_cast<double>(p->target));
      attention.push_back(p->cost.attention_ms);
      rest.push_back(p->cost.other_ms);
    }
    regime.step_crossings.push_back({source, crossing(x, attention, rest)});
  }
}

}  // namespace

std::optional<double> crossing(const std::vector<double>& lengths, const std::vector<double>& attention,
                               const std::vector<double>& rest) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (rest[i] <= 0) continue;
    const double x = lengths[i], y = attention[i] / rest[i];
    n += 1;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  const double spread = n * sxx - sx * sx;
  if (spread <= 0) return std::nullopt;
  const double slope = (n * sxy - sx * sy) / spread, start = (sy - slope * sx) / n;
  if (start >= 1) return 0.0;
  if (slope <= 0) return std::nullopt;
  return (1 - start) / slope;
}

Regime measure_regime(const std::filesystem::path& folder, const TensorMap& first, const std::vector<int64_t>& ids,
                      const DiagnosisOptions& options) {
  Profile profile;
  ProjectionsByNode projections;
  GeneratorOptions load;
  load.session = options.session;
  load.session.profile = &profile;
  load.prepare = [&](Model& model) {
    if (options.prepare) options.prepare(model);
    note_projections(model, projections);
  };
  Generator generator = Generator::load(folder, load);
  GenerationOptions search;
  const GenerationOptions& defaults = generator.defaults();
  search.decoder_start_token_id =
      defaults.decoder_start_token_id ? defaults.decoder_start_token_id : defaults.bos_token_id;
  search.decoder_input_ids = defaults.decoder_input_ids;
  constexpr int64_t kShortest = 16;
  search.max_new_tokens =
      possible_target(generator, ids.empty() ? first : source_of(ids, kShortest), search, options.longest_target);
  Regime regime;
  for (int64_t source = kShortest; source <= options.longest_source; source *= 2) {
    const TensorMap inputs = ids.empty() ? first : source_of(ids, source);
    try {
      Rounds rounds;
      for (int round = -1; round < kRounds; ++round) {  // the first one warms up
        profile.clear();
        generator.generate(inputs, search);
        if (round >= 0) rounds.add(profile.events(), generator.timing().encoder_events, projections);
      }
      if (ids.empty()) source = source_positions(profile.events(), generator.timing().encoder_events);
      rounds.add_to(regime, source);
      if (ids.empty()) break;
    } catch (const Error& e) {
      if (regime.encoder.empty()) throw;
      regime.stopped = e.what();
      break;
    }
  }
  find_crossings(regime);
  return regime;
}

}  // namespace attune
