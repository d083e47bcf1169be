// Sequences: SequenceEmpty, SequenceConstruct, SequenceAt, SequenceInsert, SequenceErase, SequenceLength, SequenceMap,
// SplitToSequence, ConcatFromSequence.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/body.h"
#include "ops/support/elements.h"
#include "ops/support/parts.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

const std::vector<Datum>& sequence(const KernelCall& call, size_t input) {
  if (!call.has(input)) throw Error(Error::Kind::kInvalidArgument, fmt::format("input {} is required", input));
  return within([&] { return fmt::format("input {}", input); },
                [&]() -> const std::vector<Datum>& { return call.datum(input).elements(); });
}

// Position input i in a sequence of `size`; `fallback` if it is left out.
size_t position(const KernelCall& call, size_t input, int64_t size, int64_t fallback) {
  const int64_t at = call.has(input) ? read_integer(call, input) : fallback;
  return within([&] { return fmt::format("input {}", input); },
                [&] { return static_cast<size_t>(checked_index(at, size)); });
}

class EmptyKernel final : public Kernel {
 public:
  explicit EmptyKernel(const KernelContext&) {}
  void run(KernelCall& call) const override { call.set_datum(0, Datum::sequence({})); }
};

class ConstructKernel final : public Kernel {
 public:
  explicit ConstructKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    std::vector<Datum> elements;
    for (size_t i = 0; i < call.input_count(); ++i) {
      expect_type(call.input(i), i, call.input(0).type());
      elements.emplace_back(call.input(i));
    }
    call.set_datum(0, Datum::sequence(std::move(elements)));
  }
};

class AtKernel final : public Kernel {
 public:
  explicit AtKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const auto& elements = sequence(call, 0);
    call.set_datum(0, elements[position(call, 1, static_cast<int64_t>(elements.size()), 0)]);
  }
};

// Writes into the sequence itself if nobody else holds it.
class InsertKernel final : public Kernel {
 public:
  explicit InsertKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const auto size = static_cast<int64_t>(sequence(call, 0).size());
    const int64_t at = call.has(2) ? read_integer(call, 2) : size;
    if (at < -size || at > size)
      fail_input(2, fmt::format("a position in [-{}, {}]", size, size), fmt::format("{}", at));
    Datum element(call.input(1));
    Datum result = call.take(0);
    auto& elements = result.mutable_elements();
    elements.insert(elements.begin() + (at < 0 ? at + size : at), std::move(element));
    call.set_datum(0, std::move(result));
  }
};

class EraseKernel final : public Kernel {
 public:
  explicit EraseKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const size_t at = position(call, 1, static_cast<int64_t>(sequence(call, 0).size()), -1);
    Datum result = call.take(0);
    auto& elements = result.mutable_elements();
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
    call.set_datum(0, std::move(result));
  }
};

class LengthKernel final : public Kernel {
 public:
  explicit LengthKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    call.set_output(0, Tensor::scalar(static_cast<int64_t>(sequence(call, 0).size())));
  }
};

// The body over the elements of input 0; other sequences go along with it, tensors stay.
class MapKernel final : public Kernel {
 public:
  explicit MapKernel(const KernelContext& context) : body_(context.compile("body")) {}
  void run(KernelCall& call) const override {
    const size_t length = sequence(call, 0).size();
    std::vector<std::vector<Datum>> results(call.output_count());
    for (size_t i = 0; i < length; ++i) {
      std::vector<Datum> values;
      for (size_t k = 0; k < call.input_count(); ++k) values.push_back(element(call, k, i, length));
      call.run(*body_, values);
      for (size_t k = 0; k < results.size(); ++k) results[k].push_back(std::move(values.at(k)));
    }
    for (size_t k = 0; k < results.size(); ++k) call.set_datum(k, Datum::sequence(std::move(results[k])));
  }
  std::string implementation() const override { return "body"; }

 private:
  static Datum element(const KernelCall& call, size_t input, size_t index, size_t length) {
    const Datum& datum = call.datum(input);
    if (datum.kind() != Datum::Kind::kSequence) return datum;
    if (datum.elements().size() != length)
      fail_input(input, fmt::format("a sequence of {}", length), fmt::format("one of {}", datum.elements().size()));
    return datum.elements()[index];
  }
  std::shared_ptr<const Subprogram> body_;
};

class SplitToSequenceKernel final : public Kernel {
 public:
  explicit SplitToSequenceKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 0)), keep_(context.node().attr_int("keepdims", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const size_t axis = normalize_axis(axis_, in.rank());
    const std::vector<int64_t> sizes = part_sizes(call, in.dim(axis));
    std::vector<Datum> parts;
    int64_t at = 0;
    for (const int64_t size : sizes) {
      const bool drop = !call.has(1) && !keep_;
      parts.emplace_back(drop ? element_of(in, axis, at, call.pool()) : part_of(in, axis, at, size, call.pool()));
      at += size;
    }
    call.set_datum(0, Datum::sequence(std::move(parts)));
  }
  std::string implementation() const override { return "copy"; }

 private:
  // A scalar is the size of all parts but the last, a vector has them all; none: parts of 1.
  static std::vector<int64_t> part_sizes(const KernelCall& call, int64_t total) {
    const Tensor* split = call.optional_input(1);
    if (split && split->rank() == 1) {
      auto sizes = split->to_int64();
      int64_t sum = 0;
      for (const int64_t size : sizes)
        if (size < 0 || __builtin_add_overflow(sum, size, &sum)) sum = -1;
      if (sum != total)
        fail_input(1, fmt::format("sizes that add up to {}", total), fmt::format("{}", fmt::join(sizes, ",")));
      return sizes;
    }
    const int64_t each = split ? read_integer(call, 1) : 1;
    if (each <= 0) fail_input(1, "a size above 0", fmt::format("{}", each));
    std::vector<int64_t> sizes;
    for (int64_t at = 0; at < total; at += std::min(each, total - at)) sizes.push_back(std::min(each, total - at));
    return sizes;
  }

  int64_t axis_;
  bool keep_;
};

class ConcatFromSequenceKernel final : public Kernel {
 public:
  explicit ConcatFromSequenceKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 0)), new_axis_(context.node().attr_int("new_axis", 0) != 0) {}

  void run(KernelCall& call) const override {
    std::vector<Tensor> parts;
    for (const Datum& element : sequence(call, 0)) parts.push_back(element.tensor());
    if (parts.empty()) fail_input(0, "a sequence with elements", "an empty one");
    const size_t axis = normalize_axis(axis_, parts[0].rank() + (new_axis_ ? 1 : 0));
    call.set_output(0, new_axis_ ? stack(parts, axis, call.pool()) : concatenate(parts, axis, call.pool()));
  }
  std::string implementation() const override { return "copy"; }

 private:
  int64_t axis_;
  bool new_axis_;
};

}  // namespace

std::vector<OpDef> ops_in_sequence() {
  return {
      {"", "SequenceEmpty", 11, prepare<EmptyKernel>},
      {"", "SequenceConstruct", 11, prepare<ConstructKernel>},
      {"", "SequenceAt", 11, prepare<AtKernel>},
      {"", "SequenceInsert", 11, prepare<InsertKernel>},
      {"", "SequenceErase", 11, prepare<EraseKernel>},
      {"", "SequenceLength", 11, prepare<LengthKernel>},
      {"", "SequenceMap", 17, prepare<MapKernel>},
      {"", "SplitToSequence", 11, prepare<SplitToSequenceKernel>},
      {"", "ConcatFromSequence", 11, prepare<ConcatFromSequenceKernel>},
  };
}

}  // namespace attune
