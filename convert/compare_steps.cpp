#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/add_cache.h"
#include "convert/sample_inputs.h"
#include "convert/sample_memory.h"
#include "graph/error.h"
#include "runtime/session.h"

namespace attune {
namespace {

constexpr int64_t kTokens = 6, kFirst = 2;  // of a sequence, and how many of them the first step takes

// Positions [begin, end) of the second axis.
Tensor positions(const Tensor& x, int64_t begin, int64_t end) {
  const Tensor dense = x.to_contiguous();
  Shape shape = dense.shape();
  const int64_t rows = shape[0], length = shape[1];
  shape[1] = end - begin;
  Tensor part = Tensor::allocate(dense.type(), shape);
  const size_t row = dense.bytes() / static_cast<size_t>(rows * length);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(dense.raw() + static_cast<size_t>(r * length + begin) * row, static_cast<size_t>(end - begin) * row,
                part.mutable_raw() + static_cast<size_t>(r * (end - begin)) * row);
  return part;
}

class StepComparison {
 public:
  // Compares what was given for positions from `begin` on with those of the whole.
  void add(const TensorMap& whole, const TensorMap& part, int64_t begin) {
    for (const auto& [name, value] : whole) {
      const Tensor& x = value.tensor();
      if (!is_float(x.type()) || x.rank() != 3 || x.dim(1) != kTokens) continue;
      const Tensor& y = part.at(name).tensor();
      compare(name, positions(x, begin, begin + y.dim(1)).to_double(), y.to_double(), static_cast<size_t>(x.dim(2)));
    }
  }

  double worst() const {
    if (compared_ == 0) throw Error(Error::Kind::kInternal, "the decoder gives nothing for each token");
    return largest_ > 0 ? difference_ / largest_ : difference_;
  }

 private:
  void compare(const std::string& name, const std::vector<double>& x, const std::vector<double>& y, size_t width) {
    if (x.size() != y.size())
      throw Error(Error::Kind::kInternal, fmt::format("output '{}' has another shape token by token", name));
    for (size_t i = 0; i < x.size(); ++i) {
      difference_ = std::max(difference_, std::abs(x[i] - y[i]));
      largest_ = std::max(largest_, std::abs(x[i]));
    }
    for (size_t row = 0; row + width <= x.size(); row += width) {
      const auto at = [&](const std::vector<double>& v) { return v.begin() + static_cast<std::ptrdiff_t>(row); };
      const auto chosen = std::max_element(at(y), at(y) + static_cast<std::ptrdiff_t>(width)) - at(y);
      const double best = *std::max_element(at(x), at(x) + static_cast<std::ptrdiff_t>(width));
      // Another token is chosen, and not because two are equally good.
      if (best - *(at(x) + chosen) > kEquallyGood * std::max(1.0, std::abs(best)))
        throw Error(Error::Kind::kInternal, fmt::format("output '{}' prefers another token, token by token", name));
    }
    ++compared_;
  }

  static constexpr double kEquallyGood = 1e-3;
  double difference_ = 0, largest_ = 0;
  size_t compared_ = 0;
};

// present.0.decoder.key as the input that takes it.
std::string past_name(const std::string& present) { return "past_key_values" + present.substr(present.find('.')); }

}  // namespace

double compare_steps(const Model& whole, const CachedDecoder& parts) {
  const SessionOptions options{};
  Session all(Plan::compile(whole), options), first(Plan::compile(parts.first), options),
      next(Plan::compile(parts.next), options);
  const auto inputs = sample_inputs(whole);
  const SampleMemory memory(whole);
  StepComparison comparison;
  for (const Padding padding : {Padding::kNone, Padding::kScattered}) {
    SampleChoice choice;
    choice.padding = padding;
    choice.seed = padding == Padding::kNone ? 1 : 2;
    const auto symbols = sample_symbols(inputs);
    for (size_t k = 0; k < symbols.size(); ++k) choice.sizes[symbols[k]] = 3 + 4 * static_cast<int64_t>(k);
    const auto tokens = std::find_if(inputs.begin(), inputs.end(), [](const SampleInput& i) {
      return i.role == InputRole::kIndex && i.dims.size() == 2;
    });
    if (tokens == inputs.end()) throw Error(Error::Kind::kInternal, "the decoder takes no tokens");
    // The batch is the same everywhere, also where it has several names.
    for (const SampleInput& i : inputs)
      if (!i.dims.empty() && !i.dims[0].as_symbol().empty()) choice.sizes[i.dims[0].as_symbol()] = 2;
    choice.sizes[tokens->dims[1].as_symbol()] = kTokens;
    memory.check(inputs, choice);
    const TensorMap sample = make_sample(inputs, choice);
    const TensorMap wanted = all.run(sample);

    const auto with_tokens = [&](TensorMap map, int64_t begin, int64_t end) {
      map[tokens->name] = Datum(positions(sample.at(tokens->name).tensor(), begin, end));
      return map;
    };
    TensorMap given = first.run(with_tokens(sample, 0, kFirst));
    comparison.add(wanted, given, 0);
    TensorMap state;
    for (int64_t t = kFirst; t < kTokens; ++t) {
      for (auto& [name, value] : given)
        if (name.starts_with("present.")) state[past_name(name)] = value;
      TensorMap step = state;
      for (const auto& port : next.plan().inputs())
        if (sample.contains(port.name)) step[port.name] = sample.at(port.name);
      given = next.run(with_tokens(std::move(step), t, t + 1));
      comparison.add(wanted, given, t);
    }
  }
  return comparison.worst();
}

}  // namespace attune
