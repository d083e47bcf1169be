#include "convert/sample_choices.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace attune {
namespace {

// The numbers that shapes are computed with: sizes that an export with fixed lengths may ask for. Smallest first.
std::vector<int64_t> fixed_sizes(const Model& model) {
  constexpr int64_t kLargest = 512;
  constexpr size_t kMost = 6;
  std::map<int64_t, size_t> uses;
  model.graph->for_each_node([&](const Node& n) {
    for (const char* type : {"Reshape", "Expand", "Slice", "ConstantOfShape", "Range", "Concat"}) {
      if (!n.is(type)) continue;
      for (const Value* v : n.inputs()) {
        const Tensor* t = v ? v->constant() : nullptr;
        if (!t || t->type() != DataType::kInt64 || t->count() > 8) continue;
        for (const int64_t size : t->to_int64())
          if (size > 1 && size <= kLargest) ++uses[size];
      }
    }
  });
  std::vector<std::pair<size_t, int64_t>> by_use;
  for (const auto& [size, count] : uses) by_use.emplace_back(count, size);
  std::sort(by_use.rbegin(), by_use.rend());
  if (by_use.size() > kMost) by_use.resize(kMost);
  std::vector<int64_t> out{1, 2};
  for (const auto& [count, size] : by_use) out.push_back(size);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

std::vector<SampleChoice> usual_choices(const std::vector<SampleInput>& inputs,
                                        const std::vector<std::string>& symbols) {
  const auto any = [&](InputRole role) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.role == role; });
  };
  const bool masks = has_padding(inputs), flags = any(InputRole::kFlag);
  constexpr std::array<std::array<int64_t, 2>, 4> kSizes = {
      {{1, 0}, {5, 2}, {2, 1}, {9, 3}}};  // size of symbol k: first + second k
  std::vector<SampleChoice> out;
  for (size_t trial = 0; trial < (symbols.empty() ? 2 : kSizes.size()); ++trial)
    for (const bool flag : flags ? std::vector{false, true} : std::vector{false}) {
      SampleChoice c;
      for (size_t k = 0; k < symbols.size(); ++k)
        c.sizes[symbols[k]] = k == 0 ? std::array<int64_t, 4>{1, 3, 2, 2}[trial]
                                     : kSizes[trial][0] + kSizes[trial][1] * static_cast<int64_t>(k);
      c.padding = masks ? static_cast<Padding>(trial % 4) : Padding::kNone;
      c.flag = flag;
      c.seed = out.size() + 1;
      out.push_back(std::move(c));
    }
  return out;
}

std::vector<SampleChoice> broadcast_choices(const SampleForm& strict, const SampleForm& loose) {
  constexpr size_t kMost = 6;
  const std::vector<SampleChoice> usual = usual_choices(loose.inputs, loose.symbols);
  const SampleChoice& base = usual[usual.size() / 2];
  std::map<std::string, std::vector<std::string>> same;  // by the size in `loose`
  SampleChoice several = base;
  several.sizes.clear();
  for (const auto& [symbol, size] : loose.sizes) {
    if (std::find(strict.symbols.begin(), strict.symbols.end(), symbol) == strict.symbols.end()) continue;
    const auto n = size.evaluate(base.sizes);
    if (!n) return {};
    several.sizes[symbol] = *n;
    if (*n > 1) same[size.to_string()].push_back(symbol);
  }
  if (several.sizes.size() != strict.symbols.size()) return {};
  std::vector<SampleChoice> out;
  for (const auto& [size, symbols] : same)
    for (const std::string& symbol : symbols)
      if (symbols.size() > 1 && out.size() < kMost) {
        out.push_back(several);
        out.back().sizes[symbol] = 1;
      }
  return out;
}

SampleChoice equal_sizes(SampleChoice c) {
  constexpr int64_t kMost = 32;
  int64_t size = 1;
  for (const auto& [symbol, n] : c.sizes) size = std::max(size, n);
  size = std::min(size, kMost);
  for (auto& [symbol, n] : c.sizes) n = size;
  return c;
}

std::optional<SampleChoice> stretched(SampleChoice c, const std::vector<SampleInput>& inputs, int64_t factor) {
  constexpr double kLargest = 1 << 20;  // elements of an input
  std::set<std::string, std::less<>> symbols;
  for (const SampleInput& input : inputs)
    for (size_t axis = 1; input.role == InputRole::kFloat && axis < input.dims.size(); ++axis)
      for (const std::string& s : input.dims[axis].symbols()) symbols.insert(s);
  if (symbols.empty()) return std::nullopt;
  for (const std::string& s : symbols) c.sizes[s] *= factor;
  for (const SampleInput& input : inputs) {
    double count = 1;
    for (const Dim& d : input.dims) count *= static_cast<double>(d.evaluate(c.sizes).value_or(1));
    if (count > kLargest) return std::nullopt;
  }
  return c;
}

std::vector<SampleChoice> fixed_choices(const std::vector<std::string>& symbols, const Model& model) {
  const std::vector<int64_t> sizes = fixed_sizes(model);
  constexpr size_t kMost = 1024;
  std::vector<SampleChoice> out(1);
  out[0].seed = 1;
  for (const std::string& symbol : symbols) {
    if (out.size() * sizes.size() > kMost) return {};
    std::vector<SampleChoice> more;
    for (const SampleChoice& c : out)
      for (const int64_t size : sizes) {
        more.push_back(c);
        more.back().sizes[symbol] = size;
      }
    out = std::move(more);
  }
  const auto different = [](const SampleChoice& c) {
    std::set<int64_t> found;
    for (const auto& [symbol, size] : c.sizes) found.insert(size);
    return found.size();
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const SampleChoice& a, const SampleChoice& b) { return different(a) < different(b); });
  return out;
}

}  // namespace attune
