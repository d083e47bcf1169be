#include "convert/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <set>

#include "convert/difference.h"
#include "convert/reference_run.h"
#include "convert/sample_choices.h"
#include "convert/sample_inputs.h"
#include "convert/sample_memory.h"
#include "convert/sample_sizes.h"
#include "graph/error.h"
#include "ops/kernel.h"
#include "ops/support/cast.h"
#include "runtime/session.h"

namespace attune {
namespace {

const char* name(Padding padding) {
  switch (padding) {
    case Padding::kNone:
      return "no padding";
    case Padding::kRight:
      return "right padding";
    case Padding::kLeft:
      return "left padding";
    case Padding::kScattered:
      return "scattered padding";
  }
  return "";
}

std::string describe(const SampleChoice& choice, const SampleForm& form, bool has_mask, bool has_flag) {
  std::vector<std::string> parts;
  for (const auto& [symbol, size] : form.sizes)
    parts.push_back(fmt::format("{} {}", symbol, size.evaluate(choice.sizes).value_or(-1)));
  std::string text = parts.empty() ? "fixed sizes" : fmt::format("{}", fmt::join(parts, ", "));
  if (has_mask) text += fmt::format("; {}", name(choice.padding));
  if (has_flag) text += choice.flag ? "; flag on" : "; flag off";
  return text;
}

// What the source refused so far, to tell whether other sizes may help.
class Refusals {
 public:
  void add(const SampleChoice& choice, const Error& e, double seconds) {
    seconds_ += seconds;
    sizes_.insert(choice.sizes);
    messages_.insert(e.what());
    // Types and operators are the same at all sizes; what small inputs ask too much for, larger ones do too.
    by_sizes_ = by_sizes_ || (e.kind() != Error::Kind::kUnsupported && e.kind() != Error::Kind::kLimit);
    too_large_ = too_large_ || e.kind() == Error::Kind::kLimit;
  }
  // The fault has to do with sizes: a message about them names them, and so differs from sizes to sizes.
  bool sizes_matter() const { return by_sizes_ && sizes_.size() > 1 && messages_.size() > 1; }
  // The one reason, whatever the inputs.
  std::optional<std::string> always() const {
    return messages_.size() == 1 && !too_large_ ? std::optional(*messages_.begin()) : std::nullopt;
  }
  double seconds() const { return seconds_; }  // of processor time

 private:
  double seconds_ = 0;
  bool by_sizes_ = false, too_large_ = false;
  std::set<std::map<std::string, int64_t, std::less<>>> sizes_;
  std::set<std::string, std::less<>> messages_;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

bool quantises(const Model& model) {
  const auto activations = model.metadata.find(std::string(kActivationsKey));
  bool found = activations != model.metadata.end() && activations->second == "int8";
  model.graph->for_each_node([&](const Node& n) {
    for (const std::string_view type :
         {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QuantizeLinear"})
      found = found || n.is(type);
  });
  return found;
}

double default_tolerance(const Model& model) {
  bool halves = false, bfloats = false;
  const auto look = [&](DataType type) {
    halves = halves || type == DataType::kFloat16;
    bfloats = bfloats || type == DataType::kBFloat16;
  };
  for (const Value* v : model.graph->inputs()) look(v->element_type());
  model.graph->for_each_node([&](const Node& n) {
    for (const Value* v : n.inputs())
      if (v) look(v->element_type());
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) look(n.output(i)->element_type());
    if (n.is("Cast")) look(static_cast<DataType>(n.attr_int("to", 0)));
  });
  return bfloats ? 2e-2 : halves ? 1e-2 : quantises(model) ? 5e-3 : kFloatTolerance;
}

namespace {

class Comparison {
 public:
  Comparison(const Model& source, const Model& result, const VerifyOptions& options)
      : source_(source),
        options_(options),
        forms_(sample_forms(source, options.sizes)),
        memory_(within("source", [&] { return SampleMemory(source); })),
        before_(within("source",
                       [&] {
                         return Session(Plan::compile(source), {options.threads, nullptr});
                       })),
        after_(within("result",
                      [&] {
                        return Session(Plan::compile(result), {options.threads, nullptr});
                      })),
        reference_(source, result, options) {
    v_.tolerance = options.tolerance.value_or(default_tolerance(source));
  }

  Verification run() {
    if (options_.inputs.empty()) {
      compare_made_up();
    } else {
      compare(options_.inputs, "the given inputs");
    }
    v_.reference = reference_.errors();
    if (v_.compared == 0 && options_.sizes.empty()) v_.always_refused = refusals_.always();
    return std::move(v_);
  }

 private:
  using Choices = std::vector<SampleChoice>;

  bool has(InputRole role) const {
    const auto& inputs = forms_.front().inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.role == role; });
  }

  bool tired() const { return refusals_.seconds() > options_.search_seconds; }
  bool may_search() const { return v_.compared == 0 && refusals_.sizes_matter(); }

  void compare_made_up() {
    std::vector<Choices> usual;
    size_t total = 0;
    for (const SampleForm& form : forms_) {
      usual.push_back(usual_choices(form.inputs, form.symbols));
      total = std::max(total, usual.back().size());
    }
    for (size_t n = 0; n < total; ++n) {
      if (n >= usual.front().size() && v_.compared > 0) break;  // it has no sizes to choose
      if (options_.progress) options_.progress(n, total);
      compare_usual(usual, n);
    }
    if (v_.compared > 0) compare_broadcast();
    for (size_t f = 0; f < forms_.size() && may_search(); ++f) compare_stretched(forms_[f], usual[f]);
    if (may_search()) compare_fixed();
    if (options_.progress) options_.progress(total, total);
  }

  // The first form whose choice `n` the source takes; equal sizes only where it takes none. The first refusal is noted
  // if it takes nothing.
  void compare_usual(const std::vector<Choices>& usual, size_t n) {
    std::optional<VerifiedCase> refused;
    const auto takes = [&](const SampleForm& form, const SampleChoice& choice) {
      VerifiedCase c = compare(form, choice);
      if (c.refused.empty()) return true;
      if (!refused) refused = std::move(c);
      return false;
    };
    for (size_t f = 0; f < forms_.size(); ++f)
      if (n < usual[f].size() && takes(forms_[f], usual[f][n])) return;
    if (n < usual.back().size() && takes(forms_.back(), equal_sizes(usual.back()[n]))) return;
    v_.cases.push_back(std::move(*refused));
  }

  // One beside several, as where a batch of texts attends to one picture; few sources mean that to work.
  void compare_broadcast() {
    if (forms_.size() < 2) return;
    for (const SampleChoice& choice : broadcast_choices(forms_[0], forms_[1])) compare(forms_[0], choice);
  }

  // Sound and pictures that are shorter than the windows of convolutions are refused: longer ones.
  void compare_stretched(const SampleForm& form, const Choices& usual) {
    for (const int64_t factor : {16, 64, 256, 1024}) {
      for (const SampleChoice& choice : usual) {
        if (v_.compared == 0 && tired()) return;
        if (const auto longer = stretched(choice, form.inputs, factor)) compare(form, *longer);
      }
      if (v_.compared > 0) return;
    }
  }

  // Sizes that are declared dynamic, but that the export has fixed.
  void compare_fixed() {
    const SampleForm& form = forms_.back();
    for (SampleChoice& choice : fixed_choices(form.symbols, source_)) {
      if (tired()) return;
      if (!compare(form, choice).refused.empty()) continue;
      choice.padding = Padding::kRight;
      compare(form, choice);
      return;
    }
  }

  // What the source takes is noted.
  VerifiedCase compare(const SampleForm& form, const SampleChoice& choice) {
    VerifiedCase c;
    c.sizes = describe(choice, form, has_padding(form.inputs), has(InputRole::kFlag));
    ++v_.tried;
    const double start = processor_seconds();
    TensorMap sample;
    std::optional<TensorMap> wanted;
    try {
      memory_.check(form.inputs, choice);
      sample = make_sample(form.inputs, choice);
      wanted = before_.run(sample);
    } catch (const Error& e) {
      c.refused = e.what();
      refusals_.add(choice, e, processor_seconds() - start);
      return c;
    }
    compare(sample, *wanted, c);
    return c;
  }

  // Inputs that were given.
  void compare(const TensorMap& sample, std::string_view what) {
    VerifiedCase c;
    c.sizes = what;
    ++v_.tried;
    const TensorMap wanted = within("source", [&] { return before_.run(sample); });
    compare(sample, wanted, c);
  }

  // Caches that the result takes in 16 bits.
  TensorMap as_result(TensorMap sample) const {
    for (const Plan::Port& port : after_.plan().inputs()) {
      const auto it = sample.find(port.name);
      if (it == sample.end() || it->second.kind() != Datum::Kind::kTensor) continue;
      const Tensor& t = it->second.tensor();
      const DataType type = port.type.tensor.element;
      if (t.type() == DataType::kFloat && is_half(type)) it->second = cast(t, type, nullptr);
    }
    return sample;
  }

  void compare(const TensorMap& sample, const TensorMap& wanted, VerifiedCase& c) {
    const TensorMap result_sample = as_result(sample);
    const TensorMap found =
        within([&] { return fmt::format("result with {}", c.sizes); }, [&] { return after_.run(result_sample); });
    for (const auto& item : wanted) {
      const std::string& output = item.first;
      const Datum& expected = item.second;
      const auto it = found.find(output);
      if (it == found.end()) throw Error(Error::Kind::kInternal, fmt::format("the result has no output '{}'", output));
      const Difference d = within([&] { return c.sizes; }, [&] { return compare_data(output, expected, it->second); });
      c.absolute = std::max(c.absolute, d.absolute);
      if (d.relative() > c.relative || c.worst_output.empty()) {
        c.relative = std::max(c.relative, d.relative());
        c.worst_output = output;
      }
    }
    reference_.add({sample, wanted, result_sample, found, c.relative > v_.tolerance});
    ++v_.compared;
    v_.largest_absolute = std::max(v_.largest_absolute, c.absolute);
    v_.largest_relative = std::max(v_.largest_relative, c.relative);
    v_.cases.push_back(c);
  }

  const Model& source_;
  const VerifyOptions& options_;
  const std::vector<SampleForm> forms_;
  const SampleMemory memory_;
  Session before_, after_;
  ReferenceRun reference_;
  Refusals refusals_;
  Verification v_;
};

}  // namespace

Verification verify(const Model& source, const Model& result, const VerifyOptions& options) {
  return Comparison(source, result, options).run();
}

}  // namespace attune
