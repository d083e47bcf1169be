// Single operators of ai.attune, for hosts that are written in Python.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/error.h"
#include "ops/evaluate.h"
#include "ops/hosts/hosted_node.h"
#include "python/bindings/bindings.h"
#include "python/bindings/tensors.h"

namespace attune::python {
namespace {

const OperatorSignature& signature(const std::string& name) {
  const OperatorSignature* found = find_signature(name);
  if (!found) throw Error(Error::Kind::kInvalidArgument, "no operator '" + name + "' in ai.attune");
  return *found;
}

Attribute to_attribute(AttributeSignature::Kind kind, nb::handle value) {
  switch (kind) {
    case AttributeSignature::Kind::kInt:
      return nb::cast<int64_t>(value);
    case AttributeSignature::Kind::kFloat:
      return nb::cast<float>(value);
    case AttributeSignature::Kind::kString:
      return nb::cast<std::string>(value);
    case AttributeSignature::Kind::kInts:
      break;
  }
  std::vector<int64_t> values;
  for (nb::handle item : value) values.push_back(nb::cast<int64_t>(item));
  return values;
}

// Values that are None are attributes that are left out.
Attributes to_attributes(const OperatorSignature& s, const nb::dict& given) {
  Attributes out;
  for (const AttributeSignature& a : s.attributes) {
    const nb::str name(a.name.data(), a.name.size());
    if (!given.contains(name) || given[name].is_none()) continue;
    try {
      out.emplace(a.name, to_attribute(a.kind, given[name]));
    } catch (const std::bad_cast&) {
      throw Error(Error::Kind::kInvalidModel, fmt::format("{}: attribute '{}' is {}", s.name, a.name,
                                                          nb::cast<std::string>(nb::repr(given[name]))));
    }
  }
  return out;
}

nb::list evaluate_operator(const std::string& name, const nb::list& inputs, const std::vector<bool>& wanted,
                           const nb::dict& attributes) {
  const OperatorSignature& s = signature(name);
  std::vector<HostedInput> hosted;
  std::vector<Datum> data;
  for (nb::handle input : inputs) {
    data.push_back(input.is_none() ? Datum() : Datum(to_tensor(input)));
    hosted.push_back({data.back().defined() ? data.back().tensor().type() : DataType::kUndefined, std::nullopt, {}});
  }
  const Attributes values = to_attributes(s, attributes);
  std::vector<Datum> outputs;
  {
    const nb::gil_scoped_release release;
    const HostedNode node(s, {}, std::move(hosted), wanted, values);
    SimpleCall call(std::move(data), node.output_count(), node.pool());
    for (size_t i = 0; i < node.output_count(); ++i) call.set_wanted(i, node.wants(i));
    node.run(call);
    outputs = std::move(call.outputs());
  }
  nb::list out;
  for (size_t i = 0; i < wanted.size(); ++i)
    out.append(wanted[i] && i < outputs.size() ? to_object(outputs[i]) : nb::none());
  return out;
}

}  // namespace

void bind_operators(nb::module_& m) {
  m.def(
      "operators",
      [] {
        nb::dict out;
        for (const OperatorSignature& s : operator_signatures()) {
          nb::list attributes;
          for (const AttributeSignature& a : s.attributes) attributes.append(nb::str(a.name.data(), a.name.size()));
          out[nb::str(s.name.data(), s.name.size())] = attributes;
        }
        return out;
      },
      nb::sig("def operators() -> dict[str, list[str]]"), "The operators of ai.attune and their attributes.");
  m.def("evaluate", &evaluate_operator, nb::arg("operator"), nb::arg("inputs"), nb::arg("wanted"),
        nb::arg("attributes"), "One call of an operator; None is what is left out.");
}

}  // namespace attune::python
