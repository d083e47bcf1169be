// StringConcat, StringSplit, StringNormalizer, RegexFullMatch. Strings are UTF-8; letters outside ASCII keep their
// case.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "ops/op.h"
#include "ops/support/loop.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

using Strings = std::vector<std::string>;

const Strings& strings(const KernelCall& call, size_t input) {
  expect_type(call.input(input), input, DataType::kString);
  return call.input(input).strings();
}

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const Strings& a = strings(call, 0);
    const Strings& b = strings(call, 1);
    Tensor& out = call.output(0, DataType::kString, broadcast(call.input(0).shape(), call.input(1).shape()));
    Strings& result = out.mutable_strings();
    const auto loop = broadcast_loop<3>(out.shape(), {&call.input(0).shape(), &call.input(1).shape(), &out.shape()});
    const auto steps = loop.row_strides();
    loop.rows(0, loop.count(), [&](const Loop<3>::Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        result[static_cast<size_t>(at[2] + i)] =
            a[static_cast<size_t>(at[0] + i * steps[0])] + b[static_cast<size_t>(at[1] + i * steps[1])];
    });
  }
};

constexpr std::string_view kSpaces = " \t\n\r\f\v";

// Python's str.split: an empty delimiter splits at runs of white space; at most `limit` splits (negative: all).
Strings split(std::string_view text, std::string_view delimiter, int64_t limit) {
  Strings parts;
  if (!delimiter.empty()) {
    while (static_cast<int64_t>(parts.size()) != limit) {
      const size_t at = text.find(delimiter);
      if (at == std::string_view::npos) break;
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + delimiter.size());
    }
    parts.emplace_back(text);
    return parts;
  }
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (text.empty()) return parts;
    if (static_cast<int64_t>(parts.size()) == limit) {
      parts.emplace_back(text.substr(0, text.find_last_not_of(kSpaces) + 1));
      return parts;
    }
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const KernelContext& context)
      : delimiter_(context.node().attr_string("delimiter", "")), limit_(context.node().attr_int("maxsplit", -1)) {}

  void run(KernelCall& call) const override {
    const Strings& in = strings(call, 0);
    const Shape shape = call.input(0).shape();
    std::vector<Strings> rows;
    size_t longest = 0;
    for (const std::string& text : in) {
      rows.push_back(split(text, delimiter_, limit_));
      longest = std::max(longest, rows.back().size());
    }
    Tensor counts = Tensor::allocate(DataType::kInt64, shape, call.pool());
    Shape padded = shape;
    padded.push_back(static_cast<int64_t>(longest));
    Tensor& out = call.output(0, DataType::kString, padded);
    for (size_t i = 0; i < rows.size(); ++i) {
      counts.mutable_data<int64_t>()[i] = static_cast<int64_t>(rows[i].size());
      std::move(rows[i].begin(), rows[i].end(),
                out.mutable_strings().begin() + static_cast<std::ptrdiff_t>(i * longest));
    }
    call.set_output(1, std::move(counts));
  }

 private:
  std::string delimiter_;
  int64_t limit_;
};

std::string change_case(std::string text, const std::string& action) {
  for (char& c : text) {
    if (action == "LOWER" && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (action == "UPPER" && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

class NormalizerKernel final : public Kernel {
 public:
  explicit NormalizerKernel(const KernelContext& context)
      : action_(context.node().attr_string("case_change_action", "NONE")),
        sensitive_(context.node().attr_int("is_case_sensitive", 0) != 0) {
    if (const auto* words = context.node().find<Strings>("stopwords"))
      for (const std::string& word : *words) stops_.insert(comparable(word));
  }

  void run(KernelCall& call) const override {
    const Strings& in = strings(call, 0);
    Shape shape = call.input(0).shape();
    if (shape.rank() != 1 && !(shape.rank() == 2 && shape[0] == 1)) fail_input(0, "(C) or (1,C)", shape.to_string());
    Strings kept;
    for (const std::string& word : in)
      if (!stops_.contains(comparable(word))) kept.push_back(change_case(word, action_));
    if (kept.empty()) kept.emplace_back();
    shape.back() = static_cast<int64_t>(kept.size());
    call.set_output(0, Tensor::from_strings(shape, std::move(kept)));
  }

 private:
  std::string comparable(const std::string& word) const { return sensitive_ ? word : change_case(word, "LOWER"); }
  std::string action_;
  bool sensitive_;
  std::set<std::string> stops_;
};

// Patterns are in RE2's syntax, as the standard says; time is linear in the text.
class RegexKernel final : public Kernel {
 public:
  explicit RegexKernel(const KernelContext& context)
      : pattern_(context.node().attr_string("pattern", ""), RE2::CannedOptions::Quiet) {
    if (!pattern_.ok())
      throw Error(Error::Kind::kInvalidModel, fmt::format("pattern '{}': {}", pattern_.pattern(), pattern_.error()));
  }

  void run(KernelCall& call) const override {
    const Strings& in = strings(call, 0);
    Tensor& out = call.output(0, DataType::kBool, call.input(0).shape());
    for (size_t i = 0; i < in.size(); ++i) out.mutable_data<bool>()[i] = RE2::FullMatch(in[i], pattern_);
  }

 private:
  RE2 pattern_;
};

}  // namespace

std::vector<OpDef> ops_in_string() {
  return {{"", "StringConcat", 20, prepare<ConcatKernel>},
          {"", "StringSplit", 20, prepare<SplitKernel>},
          {"", "StringNormalizer", 10, prepare<NormalizerKernel>},
          {"", "RegexFullMatch", 20, prepare<RegexKernel>}};
}

}  // namespace attune
