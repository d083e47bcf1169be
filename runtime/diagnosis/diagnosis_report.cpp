#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/diagnosis/diagnosis.h"

namespace attune {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFar = 1'000'000;  // a crossing beyond this is as good as none

struct Number {
  const char* name;
  double (*of)(const HeadDiagnosis&);  // in [0, 1] for pictures
};

constexpr Number kNumbers[] = {
    {"entropy", [](const HeadDiagnosis& h) { return h.entropy; }},
    {"concentrated", [](const HeadDiagnosis& h) { return h.concentrated; }},
    {"padding", [](const HeadDiagnosis& h) { return h.padding.value_or(0); }},
    {"contribution", [](const HeadDiagnosis& h) { return std::min(1.0, h.contribution / 2); }},
    {"diagonal", [](const HeadDiagnosis& h) { return std::max(0.0, h.diagonal); }},
    {"one position", [](const HeadDiagnosis& h) { return h.one_position; }},
    {"previous", [](const HeadDiagnosis& h) { return h.previous; }},
};

std::string head_line(const HeadDiagnosis& h) {
  std::string symptoms;
  for (const HeadSymptom s : h.symptoms) symptoms += (symptoms.empty() ? "" : ", ") + std::string(name(s));
  return fmt::format("{:<18} {:>4}  {:>7.3f}  {:>12.2f}  {:>7}  {:>12.2f}  {:>8.2f}  {:>8.2f}  {}\n", layer_name(h),
                     h.head, h.entropy, h.concentrated, h.padding ? fmt::format("{:.3f}", *h.padding) : "-",
                     h.contribution, h.diagonal, h.one_position, symptoms);
}

std::string heads_text(const Diagnosis& d, bool all) {
  const auto shown = std::count_if(d.heads.begin(), d.heads.end(), [](const auto& h) { return !h.symptoms.empty(); });
  std::string out = fmt::format("{} heads, {} with symptoms\n", d.heads.size(), shown);
  if (!all && shown == 0) return out;
  out += fmt::format("{:<18} {:>4}  {:>7}  {:>12}  {:>7}  {:>12}  {:>8}  {:>8}  {}\n", "layer", "head", "entropy",
                     "concentrated", "padding", "contribution", "diagonal", "one pos.", "symptoms");
  for (const HeadDiagnosis& h : d.heads)
    if (all || !h.symptoms.empty()) out += head_line(h);
  return out;
}

std::string outputs_text(const Diagnosis& d) {
  std::string out;
  size_t left_out = 0, repeated = 0;
  for (size_t i = 0; i < d.outputs.size(); ++i) {
    const OutputDiagnosis& o = d.outputs[i];
    if (!o.never_attended.empty()) {
      ++left_out;
      out += fmt::format("source {}: positions never attended: {} (of {})\n", i, fmt::join(o.never_attended, " "),
                         o.coverage.size());
    }
    if (o.repeat) {
      ++repeated;
      out += fmt::format("source {}: the output repeats {} token(s) {} times from token {} on\n", i, o.repeat->length,
                         o.repeat->times, o.repeat->at);
    }
  }
  return fmt::format("{} outputs; {} leave source positions unattended, {} repeat themselves\n", d.outputs.size(),
                     left_out, repeated) +
         out;
}

std::string crossing_text(const std::optional<double>& at, double measured, std::string_view what) {
  if (!at || *at > kFar) return fmt::format("attention never takes the larger part of {}", what);
  if (*at <= 0) return fmt::format("attention takes the larger part of {} at any length", what);
  return fmt::format("attention becomes the larger part of {} at {:.0f}{}", what, *at,
                     *at > measured ? " (beyond what was measured)" : "");
}

std::string cost_line(const std::string& label, const Cost& c) {
  const double share = c.attention_ms / std::max(1e-12, c.attention_ms + c.other_ms);
  return fmt::format("{:<28} {:>9.3f}  {:>9.3f}  {:>5.1f} %  {:>10.2f}  {:>10.2f}  {:>10.2f}\n", label, c.attention_ms,
                     c.other_ms, 100 * share, c.attention_bytes / 1e6, c.other_bytes / 1e6, c.score_bytes / 1e6);
}

std::string regime_text(const Regime& r) {
  std::string out = fmt::format("{:<28} {:>9}  {:>9}  {:>7}  {:>10}  {:>10}  {:>10}\n", "", "attention", "rest", "",
                                "attention", "rest", "weights");
  out += fmt::format("{:<28} {:>9}  {:>9}  {:>7}  {:>10}  {:>10}  {:>10}\n", "one source", "ms", "ms", "share", "MB",
                     "MB", "MB");
  for (const RegimePoint& p : r.encoder) out += cost_line(fmt::format("encoder, source {}", p.source), p.cost);
  for (const RegimePoint& p : r.step)
    out += cost_line(fmt::format("step, source {}, target {}", p.source, p.target), p.cost);
  const double longest = r.encoder.empty() ? 0 : static_cast<double>(r.encoder.back().source);
  out += crossing_text(r.encoder_crossing, longest, "the encoder") + " (source length)\n";
  double target = 0;
  for (const RegimePoint& p : r.step) target = std::max(target, static_cast<double>(p.target));
  for (const auto& c : r.step_crossings)
    out += crossing_text(c.target, target, fmt::format("a step over {} source positions", c.source)) +
           " (tokens so far)\n";
  if (!r.stopped.empty()) out += "longer sources were not measured: " + r.stopped + "\n";
  return out;
}

ordered_json to_json(const HeadDiagnosis& h) {
  ordered_json j{{"part", h.encoder ? "encoder" : "decoder"},
                 {"attention", h.kind == AttentionKind::kCross ? "cross" : "self"},
                 {"layer", h.layer},
                 {"head", h.head},
                 {"queries", h.queries},
                 {"entropy", h.entropy},
                 {"concentrated", h.concentrated},
                 {"largest", h.largest},
                 {"padding", h.padding ? ordered_json(*h.padding) : ordered_json()},
                 {"contribution", h.contribution},
                 {"self", h.self},
                 {"previous", h.previous},
                 {"next", h.next},
                 {"diagonal", h.diagonal},
                 {"one_position", h.one_position},
                 {"symptoms", ordered_json::array()}};
  for (const HeadSymptom s : h.symptoms) j["symptoms"].push_back(name(s));
  return j;
}

ordered_json to_json(const OutputDiagnosis& o) {
  ordered_json j{
      {"tokens", o.tokens}, {"coverage", o.coverage}, {"never_attended", o.never_attended}, {"repeat", nullptr}};
  if (o.repeat) j["repeat"] = {{"at", o.repeat->at}, {"length", o.repeat->length}, {"times", o.repeat->times}};
  return j;
}

ordered_json to_json(const RegimePoint& p) {
  return {{"source", p.source},
          {"target", p.target},
          {"attention_ms", p.cost.attention_ms},
          {"other_ms", p.cost.other_ms},
          {"attention_bytes", p.cost.attention_bytes},
          {"other_bytes", p.cost.other_bytes},
          {"score_bytes", p.cost.score_bytes}};
}

ordered_json to_json(const std::optional<double>& x) { return x ? ordered_json(*x) : ordered_json(); }

ordered_json to_json(const Regime& r) {
  ordered_json j{{"encoder", ordered_json::array()},
                 {"step", ordered_json::array()},
                 {"encoder_crossing", to_json(r.encoder_crossing)},
                 {"step_crossings", ordered_json::array()},
                 {"stopped", r.stopped}};
  for (const RegimePoint& p : r.encoder) j["encoder"].push_back(to_json(p));
  for (const RegimePoint& p : r.step) j["step"].push_back(to_json(p));
  for (const auto& c : r.step_crossings)
    j["step_crossings"].push_back({{"source", c.source}, {"target", to_json(c.target)}});
  return j;
}

}  // namespace

std::string_view name(HeadSymptom symptom) {
  switch (symptom) {
    case HeadSymptom::kUniform:
      return "uniform";
    case HeadSymptom::kConcentrated:
      return "over-concentrated";
    case HeadSymptom::kPadding:
      return "attends to padding";
    case HeadSymptom::kDead:
      return "dead";
  }
  return "";
}

std::string layer_name(const HeadDiagnosis& h) {
  return fmt::format("{} layer {}",
                     h.encoder                         ? "encoder"
                     : h.kind == AttentionKind::kCross ? "cross"
                                                       : "decoder",
                     h.layer);
}

std::string diagnosis_text(const Diagnosis& d, bool all_heads) {
  std::string out = heads_text(d, all_heads) + "\n" + outputs_text(d);
  if (d.regime) out += "\n" + regime_text(*d.regime);
  return out;
}

std::string diagnosis_json(const Diagnosis& d) {
  ordered_json j{{"heads", ordered_json::array()}, {"outputs", ordered_json::array()}, {"regime", nullptr}};
  for (const HeadDiagnosis& h : d.heads) j["heads"].push_back(to_json(h));
  for (const OutputDiagnosis& o : d.outputs) j["outputs"].push_back(to_json(o));
  if (d.regime) j["regime"] = to_json(*d.regime);
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

AlignmentPicture diagnosis_picture(const Diagnosis& d) {
  AlignmentPicture p;
  p.title = "heads";
  size_t heads = 0;
  for (const HeadDiagnosis& h : d.heads) {
    if (p.rows.empty() || p.rows.back() != layer_name(h)) p.rows.push_back(layer_name(h));
    heads = std::max(heads, h.head + 1);
  }
  const size_t width = heads * std::size(kNumbers);
  AlignmentHead all{"each number for each head", std::vector<float>(p.rows.size() * width, 0.0F)};
  for (const Number& n : kNumbers)
    for (size_t h = 0; h < heads; ++h) p.columns.push_back(fmt::format("{} {}", n.name, h));
  for (const HeadDiagnosis& h : d.heads) {
    const auto row = static_cast<size_t>(std::find(p.rows.begin(), p.rows.end(), layer_name(h)) - p.rows.begin());
    for (size_t n = 0; n < std::size(kNumbers); ++n)
      all.weights[row * width + n * heads + h.head] = static_cast<float>(kNumbers[n].of(h));
  }
  p.heads.push_back(std::move(all));
  return p;
}

}  // namespace attune
