#include "convert/sample_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <unordered_set>

#include "graph/error.h"
#include "passes/comparisons.h"

namespace attune {
namespace {

// Whether the node's outputs have the elements of this input.
bool keeps_elements(const Use& use) {
  static const std::unordered_set<std::string_view> kKeeping = {"Cast",    "Identity",  "Reshape", "Unsqueeze",
                                                                "Squeeze", "Expand",    "Concat",  "Slice",
                                                                "Flatten", "Transpose", "Split",   "Gather"};
  const Node& node = *use.node;
  return node.domain().empty() && (use.index == 0 || node.type() == "Concat") && kKeeping.contains(node.type());
}

// `value` and the values that have its elements.
void for_each_copy(const Value* value, std::unordered_set<const Value*>& seen,
                   const std::function<void(const Value&)>& f) {
  if (!seen.insert(value).second) return;
  f(*value);
  for (const Use& use : value->uses()) {
    if (!keeps_elements(use)) continue;
    for (size_t i = 0; i < use.node->output_count(); ++i)
      if (use.node->output(i)) for_each_copy(use.node->output(i), seen, f);
  }
}

void for_each_copy(const Value& value, const std::function<void(const Value&)>& f) {
  std::unordered_set<const Value*> seen;
  for_each_copy(&value, seen, f);
}

// Rows of the smallest table that the elements of `value` look up.
std::optional<int64_t> table_rows(const Value& value) {
  std::optional<int64_t> rows;
  const auto take = [&](std::optional<int64_t> n) {
    if (n && (!rows || *n < *rows)) rows = n;
  };
  for (const Use& use : value.uses()) {
    const Node& node = *use.node;
    if (node.is("Gather") && use.index == 1 && node.input(0)) {
      const TensorType& table = node.input(0)->tensor_type();
      const int64_t axis = node.attr_int("axis", 0);
      const auto n = table.dim(static_cast<int>(axis)).constant();
      // A table of weights, not the shape or length of something.
      if (n && is_float(table.element)) take(*n);
    } else if (node.is("EmbedLayerNormalization", "com.microsoft") && use.index == 0) {
      if (node.input(2)) take(node.input(2)->tensor_type().dim(0).constant());
    }
  }
  return rows;
}

// The side of the square grid of patches that a vision model has position embeddings for: constants
// (1, N, width) where N is a square number, or one more or two more (class and distillation tokens).
std::optional<int64_t> grid_side(const Graph& graph, int64_t width) {
  for (const auto& constant : graph.constants()) {
    const TensorType& t = constant->tensor_type();
    const auto count = t.dim(-2).constant();
    if (t.rank() != 3 || !t.dim(0).is(1) || !t.dim(-1).is(width) || !count || !is_float(t.element)) continue;
    for (int64_t tokens = 0; tokens <= 2; ++tokens) {
      const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(*count - tokens))));
      if (side > 1 && side * side == *count - tokens) return side;
    }
  }
  return std::nullopt;
}

// Sizes that a convolution over the input asks for: its channels, and of an image cut into patches the height and width
// that position embeddings exist for.
void bind_convolution(const Value& input, Dims& dims) {
  for (const Use& use : input.uses()) {
    const Node& n = *use.node;
    if (!n.is("Conv") || use.index != 0 || !n.input(1) || !n.input(1)->constant() || dims.size() < 3) continue;
    const Shape& weights = n.input(1)->constant()->shape();
    if (weights.rank() != dims.size()) continue;
    if (!dims[1].constant()) dims[1] = Dim(weights[1] * n.attr_int("group", 1));
    const std::vector<int64_t> strides = n.attr_ints("strides");
    const bool patches =
        dims.size() == 4 && strides.size() == 2 && strides[0] == weights[2] && strides[1] == weights[3];
    const auto side = patches ? grid_side(*input.graph(), weights[0]) : std::nullopt;
    for (size_t axis = 2; side && axis < 4; ++axis)
      if (!dims[axis].constant()) dims[axis] = Dim(*side * strides[axis - 2]);
  }
}

// What elements of the input are compared with, ascending, within the range of small ids.
std::vector<int64_t> compared_numbers(const Value& input) {
  constexpr double kLargest = 1 << 24;
  std::set<int64_t> numbers;
  for (const Use& comparison : comparisons_of(input)) {
    const auto number = compared_with(comparison);
    // Two inputs, or two positions of one, are compared: a few numbers are met often.
    if (!number) numbers.insert({1, 2});
    if (number && std::abs(*number) < kLargest) numbers.insert(static_cast<int64_t>(*number));
  }
  return {numbers.begin(), numbers.end()};
}

SampleInput describe(const Value& input, const Inference* types) {
  const TensorType& t = input.tensor_type();
  const std::string name(input.name());
  if (input.type().kind != ValueType::Kind::kTensor || !t.shape)
    throw Error(Error::Kind::kUnsupported,
                fmt::format("input '{}' of type {} can't be made up", name, input.type().to_string()));
  SampleInput s{name, InputRole::kFloat, t.element, *t.shape, 0, {}, {}};
  for (size_t i = 0; i < s.dims.size(); ++i)
    if (!s.dims[i].known()) s.dims[i] = Dim::symbol(undeclared_size(name, i));
  if (is_float(t.element)) {
    bind_convolution(input, s.dims);
    return s;
  }
  if (t.element == DataType::kBool) {
    const bool one = std::all_of(s.dims.begin(), s.dims.end(), [](const Dim& d) { return d.is(1); });
    s.role = one ? InputRole::kFlag : InputRole::kMask;
    return s;
  }
  if (!is_integer(t.element))
    throw Error(Error::Kind::kUnsupported,
                fmt::format("input '{}' of type {} can't be made up", name, input.type().to_string()));
  std::optional<int64_t> rows;
  for_each_copy(input, [&](const Value& v) {
    if (const auto n = table_rows(v); n && (!rows || *n < *rows)) rows = n;
    if (const IntegerRange* needed = types ? types->needed_integers(&v) : nullptr) s.range = *needed;
  });
  if (rows) {
    s.role = InputRole::kIndex;
    s.bound = *rows;
  } else {
    s.role = s.dims.empty() ? InputRole::kNumber : s.dims.size() == 1 ? InputRole::kLengths : InputRole::kMask;
  }
  if (s.role == InputRole::kIndex || s.role == InputRole::kMask) s.compared = compared_numbers(input);
  if (s.role == InputRole::kIndex) std::erase_if(s.compared, [&](int64_t id) { return id < 0 || id >= s.bound; });
  if (s.compared == std::vector<int64_t>{0} && s.role == InputRole::kMask) s.compared.clear();  // as 0 or 1 are
  return s;
}

// A row of a mask; some position is always 1.
std::vector<bool> mask_row(int64_t size, Padding padding, std::mt19937_64& rng) {
  std::vector<bool> row(static_cast<size_t>(size), true);
  if (size < 2 || padding == Padding::kNone) return row;
  const auto kept = static_cast<size_t>(1 + rng() % static_cast<uint64_t>(size));
  switch (padding) {
    case Padding::kNone:
      break;
    case Padding::kRight:
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(kept), row.end(), false);
      break;
    case Padding::kLeft:
      std::fill(row.begin(), row.end() - static_cast<std::ptrdiff_t>(kept), false);
      break;
    case Padding::kScattered:
      for (size_t i = 0; i < row.size(); ++i) row[i] = rng() % 2 == 0;
      row[rng() % row.size()] = true;
  }
  return row;
}

// The element of a row that is kept or not: one of the numbers that the graph looks for, or none of them.
int64_t id_for(bool kept, const SampleInput& input, std::mt19937_64& rng) {
  const std::vector<int64_t>& marks = input.compared;
  if (!kept) return marks[rng() % marks.size()];
  const int64_t bound = input.role == InputRole::kIndex ? input.bound : marks.back() + 4;
  for (int tries = 0; tries < 16; ++tries) {
    const auto id = static_cast<int64_t>(rng() % static_cast<uint64_t>(std::max<int64_t>(1, bound)));
    if (!std::binary_search(marks.begin(), marks.end(), id)) return id;
  }
  return marks.front();
}

// What is needed of the integers in an input, at these sizes.
std::optional<std::pair<int64_t, int64_t>> range_of(const SampleInput& input, const SampleChoice& choice) {
  const auto low = input.range ? input.range->low.evaluate(choice.sizes) : std::nullopt;
  const auto high = input.range ? input.range->high.evaluate(choice.sizes) : std::nullopt;
  return low && high && *low <= *high ? std::optional(std::pair(*low, *high)) : std::nullopt;
}

void store(Tensor& t, int64_t i, double value) {
  switch (t.type()) {
    case DataType::kFloat:
      t.mutable_data<float>()[i] = static_cast<float>(value);
      break;
    case DataType::kDouble:
      t.mutable_data<double>()[i] = value;
      break;
    case DataType::kFloat16:
      t.mutable_data<Float16>()[i] = Float16(static_cast<float>(value));
      break;
    case DataType::kBFloat16:
      t.mutable_data<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      break;
    case DataType::kInt64:
      t.mutable_data<int64_t>()[i] = static_cast<int64_t>(value);
      break;
    case DataType::kInt32:
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
      break;
    case DataType::kInt8:
      t.mutable_data<int8_t>()[i] = static_cast<int8_t>(value);
      break;
    case DataType::kUInt8:
      t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(value);
      break;
    case DataType::kBool:
      t.mutable_data<bool>()[i] = value != 0;
      break;
    default:
      throw Error(Error::Kind::kUnsupported, fmt::format("inputs of {} can't be made up", name(t.type())));
  }
}

}  // namespace

std::string undeclared_size(std::string_view input, size_t axis) { return fmt::format("{}#{}", input, axis); }

std::vector<SampleInput> sample_inputs(const Model& model, const Inference* types) {
  std::vector<SampleInput> out;
  for (const Value* v : model.graph->inputs())
    if (!v->default_value()) out.push_back(describe(*v, types));
  return out;
}

std::vector<std::string> sample_symbols(const std::vector<SampleInput>& inputs) {
  std::vector<std::string> out;
  for (const SampleInput& input : inputs)
    for (const Dim& d : input.dims)
      for (const std::string& s : d.symbols())
        if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  return out;
}

bool has_padding(const std::vector<SampleInput>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const SampleInput& i) { return i.role == InputRole::kMask || !i.compared.empty(); });
}

std::map<std::string, Datum, std::less<>> make_sample(const std::vector<SampleInput>& inputs,
                                                      const SampleChoice& choice) {
  std::map<std::string, Datum, std::less<>> out;
  std::mt19937_64 rng(choice.seed);
  std::normal_distribution<double> normal;
  int64_t shortest = std::numeric_limits<int64_t>::max();  // of all dynamic sizes
  for (const auto& [symbol, size] : choice.sizes) shortest = std::min(shortest, size);
  for (const SampleInput& input : inputs) {
    Shape shape;
    for (size_t i = 0; i < input.dims.size(); ++i) {
      const auto size = input.dims[i].evaluate(choice.sizes);
      if (!size || *size < 0)
        throw Error(Error::Kind::kInvalidArgument,
                    fmt::format("input '{}': dimension {} ({}) has no size", input.name, i, input.dims[i].to_string()));
      shape.push_back(*size);
    }
    Tensor t = Tensor::allocate(input.type, shape);
    const int64_t count = t.count();
    const bool ids = !input.compared.empty();
    if (const auto range = range_of(input, choice)) {
      for (int64_t i = 0; i < count; ++i)
        store(t, i, static_cast<double>(std::uniform_int_distribution(range->first, range->second)(rng)));
    } else if ((input.role == InputRole::kMask || ids) && !shape.empty()) {
      const int64_t width = shape.back();
      for (int64_t r = 0; width > 0 && r < count / width; ++r) {
        const auto row = mask_row(width, choice.padding, rng);
        // Whether attention sees the numbers that a mask is compared with, or the others: each in turn.
        const bool turned = ids && input.role == InputRole::kMask && r % 2 == 1;
        for (int64_t c = 0; c < width; ++c) {
          const bool kept = row[static_cast<size_t>(c)] != turned;
          store(t, r * width + c, static_cast<double>(ids ? id_for(kept, input, rng) : static_cast<int64_t>(kept)));
        }
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        double value = 0;
        switch (input.role) {
          case InputRole::kIndex:
            value = static_cast<double>(rng() % static_cast<uint64_t>(std::max<int64_t>(1, input.bound)));
            break;
          case InputRole::kLengths:
            value = static_cast<double>(1 + rng() % static_cast<uint64_t>(std::clamp<int64_t>(shortest, 1, 64)));
            break;
          case InputRole::kNumber:
            value = 3;
            break;
          case InputRole::kFlag:
            value = choice.flag ? 1 : 0;
            break;
          case InputRole::kFloat:
            value = normal(rng);
            break;
          case InputRole::kMask:
            value = 1;
            break;
        }
        store(t, i, value);
      }
    }
    out.emplace(input.name, Datum(std::move(t)));
  }
  return out;
}

}  // namespace attune
