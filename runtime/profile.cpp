#include "runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace attune {
namespace {

double count(const Shape& shape) { return static_cast<double>(shape.count()); }
bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

struct Total {
  size_t calls = 0;
  double microseconds = 0, bytes = 0, flops = 0;
  std::string implementation;
};

}  // namespace

double ProfileEvent::flops() const {
  if (inputs.empty() || outputs.empty()) return 0;
  const Shape& a = inputs[0];
  const double out = count(outputs[0]);
  const auto second = [&](size_t axis_from_end) {
    const bool there = inputs.size() > 1 && inputs[1].rank() >= axis_from_end;
    return there ? static_cast<double>(inputs[1][inputs[1].rank() - axis_from_end]) : 0;
  };
  if (ends_with(op, "MatMul") || ends_with(op, "MatMulInteger") || ends_with(op, "Linear"))
    return a.empty() ? 0 : 2 * out * static_cast<double>(a.back());
  if (op == "Gemm") return a.empty() || outputs[0].empty() ? 0 : 2 * count(a) * static_cast<double>(outputs[0].back());
  if (op == "Conv" || op == "ConvInteger")
    return inputs.size() > 1 && inputs[1].rank() > 1 ? 2 * out * count(inputs[1]) / static_cast<double>(inputs[1][0])
                                                     : 0;
  // Scores and weighted values; projections inside an Attention node are not counted here.
  if (ends_with(op, "Attention") && a.rank() >= 3) return 4 * count(a) * second(2);
  return 0;
}

std::string Profile::table() const {
  std::map<std::string, Total> totals;
  double all = 0;
  for (const ProfileEvent& e : events_) {
    Total& t = totals[e.label];
    ++t.calls;
    t.microseconds += e.microseconds();
    t.bytes += e.bytes;
    t.flops += e.flops();
    t.implementation = e.implementation;
    all += e.microseconds();
  }
  std::vector<std::pair<std::string, Total>> rows(totals.begin(), totals.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
  std::string out = fmt::format("{:>8} {:>12} {:>6} {:>8} {:>9}  {:<24} {}\n", "calls", "us", "%", "GB/s", "GFLOP/s",
                                "implementation", "node");
  for (const auto& [label, t] : rows) {
    const double us = std::max(t.microseconds, 1e-3);
    out += fmt::format("{:>8} {:>12.1f} {:>6.1f} {:>8.1f} {:>9.1f}  {:<24} {}\n", t.calls, t.microseconds,
                       100 * t.microseconds / std::max(all, 1e-3), t.bytes / us / 1e3, t.flops / us / 1e3,
                       t.implementation, label);
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
  return nlohmann::json{{"traceEvents", trace}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace attune
