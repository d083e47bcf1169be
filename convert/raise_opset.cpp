#include "convert/raise_opset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/error.h"

namespace attune {
namespace {

[[noreturn]] void refuse(const Node& node, int64_t from, int64_t to) {
  throw Error(Error::Kind::kUnsupported,
              fmt::format("{}: its form in opset {} can't be brought to opset {}", node.label(), from, to));
}

// Integers that were an attribute become input `input`.
void attribute_to_input(Node& node, const char* attribute, size_t input) {
  const auto* values = node.find<std::vector<int64_t>>(attribute);
  if (!values) return;
  const auto count = static_cast<int64_t>(values->size());
  node.set_input(input, node.graph()->add_constant(Tensor::from<int64_t>({count}, std::span<const int64_t>(*values))));
  node.attributes().erase(std::string(attribute));
}

// Softmax and its kin flattened all axes from `axis` on before opset 13.
void raise_softmax(Node& node, int64_t from, int64_t to) {
  const int rank = node.input(0)->tensor_type().rank();
  const int64_t axis = node.attr_int("axis", 1);
  if (rank <= 0 || (axis != rank - 1 && axis != -1)) refuse(node, from, to);
  node.set("axis", int64_t{-1});
}

// A Split into equal parts counted its outputs itself before opset 18.
void raise_split(Node& node, int64_t from) {
  if (from < 13) attribute_to_input(node, "split", 1);
  if (!node.input(1)) node.set("num_outputs", static_cast<int64_t>(node.output_count()));
}

void raise_clip(Node& node) {
  size_t input = 1;
  for (const char* name : {"min", "max"}) {
    if (const float* bound = node.find<float>(name)) {
      node.set_input(input, node.graph()->add_constant(Tensor::scalar(*bound)));
      node.attributes().erase(std::string(name));
    }
    ++input;
  }
}

void raise(Node& node, int64_t from, int64_t to) {
  // Operators whose axes became an input, and when.
  static constexpr std::array<std::string_view, 9> kReductions = {"ReduceMean",   "ReduceMax",       "ReduceMin",
                                                                  "ReduceProd",   "ReduceL1",        "ReduceL2",
                                                                  "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
  static constexpr std::array<std::string_view, 3> kAxes13 = {"ReduceSum", "Squeeze", "Unsqueeze"};
  static constexpr std::array<std::string_view, 3> kFlattening = {"Softmax", "LogSoftmax", "Hardmax"};
  const auto is_one_of = [&](const auto& names) {
    return std::find(names.begin(), names.end(), node.type()) != names.end();
  };
  const auto crosses = [&](int64_t version) { return from < version && to >= version; };
  if (crosses(13)) {
    if (is_one_of(kAxes13)) attribute_to_input(node, "axes", 1);
    if (is_one_of(kFlattening)) raise_softmax(node, from, to);
  }
  if (crosses(18)) {
    if (is_one_of(kReductions)) attribute_to_input(node, "axes", 1);
    if (node.is("Split")) raise_split(node, from);
  } else if (crosses(13) && node.is("Split")) {
    attribute_to_input(node, "split", 1);
  }
  if (crosses(11) && node.is("Clip")) raise_clip(node);
  if (crosses(12) && node.is("Dropout")) node.attributes().erase("ratio");  // of training
  // What changed its meaning and that no exporter of attention models writes.
  struct Changed {
    std::string_view type;
    int64_t version;
  };
  static constexpr std::array<Changed, 7> kChanged = {{{"Resize", 11},
                                                       {"Pad", 11},
                                                       {"Scatter", 11},
                                                       {"RoiAlign", 16},
                                                       {"GridSample", 20},
                                                       {"DFT", 20},
                                                       {"GroupNormalization", 21}}};
  for (const Changed& c : kChanged)
    if (node.is(c.type) && crosses(c.version)) refuse(node, from, to);
  if (node.is("BatchNormalization") && crosses(14) && node.output_count() > 1) refuse(node, from, to);
}

}  // namespace

void raise_opset(Model& model, int64_t opset) {
  const int64_t from = model.opset();
  if (from >= opset) return;
  constexpr int64_t kOldest = 10;  // older forms of Slice, TopK and Upsample aren't worth it
  if (from < kOldest)
    throw Error(Error::Kind::kUnsupported,
                fmt::format("a model of opset {} can't be brought to opset {}", from, opset));
  model.graph->for_each_node([&](Node& node) {
    if (node.domain().empty()) raise(node, from, opset);
  });
  model.opset_imports[""] = opset;
  constexpr int64_t kIrOfOpset21 = 10;
  if (opset >= 21) model.ir_version = std::max(model.ir_version, kIrOfOpset21);
}

}  // namespace attune
