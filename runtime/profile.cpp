#include "runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

double count(const Shape& shape) { return static_cast<double>(shape.count()); }
bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

// Projections, scores, and weighted values.
double attention_flops(const std::vector<Shape>& inputs) {
  const auto input = [&](size_t i) { return i < inputs.size() ? inputs[i] : Shape(); };
  const auto rows = [](const Shape& s) {
    return s.empty() ? 0 : count(s) / std::max(1.0, static_cast<double>(s.back()));
  };
  const auto length = [](const Shape& s) { return s.rank() < 2 ? 0 : static_cast<double>(s[s.rank() - 2]); };
  const Shape query = input(kAttentionQuery), key = input(kAttentionKey).empty() ? query : input(kAttentionKey),
              value = input(kAttentionValue).empty() ? key : input(kAttentionValue);
  const std::pair<Shape, size_t> projected[] = {
      {query, kAttentionQueryWeight}, {key, kAttentionKeyWeight}, {value, kAttentionValueWeight}};
  double flops = 0;
  for (const auto& [states, weight] : projected)
    if (!input(weight).empty()) flops += 2 * rows(states) * count(input(weight));
  const Shape& w = input(kAttentionQueryWeight);
  const double width = static_cast<double>(w.empty() ? query.back() : w.back());
  return flops + 4 * rows(query) * width * (length(key) + length(input(kAttentionPastKey)));
}

}  // namespace

double ProfileEvent::flops() const {
  if (inputs.empty() || outputs.empty() || inputs[0].empty()) return 0;
  const Shape& a = inputs[0];
  const double out = count(outputs[0]), rows = count(a) / std::max(1.0, static_cast<double>(a.back()));
  if (ends_with(op, "MatMul") || ends_with(op, "MatMulInteger") || ends_with(op, "Linear"))
    return 2 * out * static_cast<double>(a.back());
  if (ends_with(op, "FeedForward")) return inputs.size() > 3 ? 2 * rows * (count(inputs[1]) + count(inputs[3])) : 0;
  if (ends_with(op, "LinearTop")) return inputs.size() > 1 ? 2 * rows * count(inputs[1]) : 0;
  if (ends_with(op, "Gemm")) return outputs[0].empty() ? 0 : 2 * count(a) * static_cast<double>(outputs[0].back());
  if (ends_with(op, "Conv") || ends_with(op, "ConvInteger")) {
    const Shape& w = inputs[op.starts_with("QLinear") ? std::min<size_t>(3, inputs.size() - 1) : inputs.size() > 1];
    return w.rank() > 1 ? 2 * out * count(w) / static_cast<double>(w[0]) : 0;
  }
  if (ends_with(op, "LSTM") || ends_with(op, "GRU") || ends_with(op, "RNN"))
    // W (directions, gates, inputs) and R with as many numbers a gate and step of each row.
    return inputs.size() > 2 ? 2 * rows * (count(inputs[1]) + count(inputs[2])) : 0;
  if (op == "ai.attune.Attention") return attention_flops(inputs);
  return 0;
}

std::vector<ProfileRow> Profile::rows() const {
  std::map<std::string, ProfileRow> totals;
  for (const ProfileEvent& e : events_) {
    ProfileRow& r = totals[e.label];
    r.label = e.label;
    r.implementation = e.implementation;
    ++r.calls;
    r.microseconds += e.microseconds();
    r.bytes += e.bytes;
    r.flops += e.flops();
  }
  std::vector<ProfileRow> out;
  for (auto& [label, row] : totals) out.push_back(std::move(row));
  std::stable_sort(out.begin(), out.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.microseconds > b.microseconds; });
  return out;
}

std::string Profile::table() const {
  const std::vector<ProfileRow> rows = this->rows();
  double all = 0;
  for (const ProfileRow& r : rows) all += r.microseconds;
  std::string out = fmt::format("{:>8} {:>12} {:>6} {:>9} {:>7} {:>9} {:>8}  {:<24} {}\n", "calls", "us", "%", "MB",
                                "GB/s", "MFLOP", "GFLOP/s", "implementation", "node");
  for (const ProfileRow& r : rows) {
    const double us = std::max(r.microseconds, 1e-3);
    out += fmt::format("{:>8} {:>12.1f} {:>6.1f} {:>9.3f} {:>7.1f} {:>9.3f} {:>8.1f}  {:<24} {}\n", r.calls,
                       r.microseconds, 100 * r.microseconds / std::max(all, 1e-3), r.bytes / 1e6, r.bytes / us / 1e3,
                       r.flops / 1e6, r.flops / us / 1e3, r.implementation, r.label);
  }
  return out;
}

std::string Profile::chrome_trace() const {
  nlohmann::json trace = nlohmann::json::array();
  for (const ProfileEvent& e : events_) {
    const double at = std::chrono::duration<double, std::micro>(e.start - events_.front().start).count();
    trace.push_back({{"name", e.label},
                     {"cat", e.op},
                     {"ph", "X"},
                     {"pid", 1},
                     {"tid", 1},
                     {"ts", at},
                     {"dur", e.microseconds()},
                     {"args", {{"implementation", e.implementation}, {"bytes", e.bytes}, {"flops", e.flops()}}}});
  }
  return nlohmann::json{{"traceEvents", trace}, {"displayTimeUnit", "ms"}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace attune
