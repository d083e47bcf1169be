#include "runtime/diagnosis/diagnosis.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert/convert.h"
#include "python/bindings/bindings.h"
#include "python/bindings/tensors.h"

namespace attune::python {
namespace {

std::vector<std::string> symptoms(const HeadDiagnosis& head) {
  std::vector<std::string> names;
  for (const HeadSymptom s : head.symptoms) names.emplace_back(name(s));
  return names;
}

}  // namespace

void bind_diagnosis(nb::module_& m) {
  nb::class_<HeadDiagnosis>(m, "HeadDiagnosis", "What one head of one attention does.")
      .def_prop_ro("layer_name", layer_name)
      .def_ro("layer", &HeadDiagnosis::layer)
      .def_ro("head", &HeadDiagnosis::head)
      .def_ro("queries", &HeadDiagnosis::queries)
      .def_ro("entropy", &HeadDiagnosis::entropy)
      .def_ro("concentrated", &HeadDiagnosis::concentrated)
      .def_ro("largest", &HeadDiagnosis::largest)
      .def_ro("padding", &HeadDiagnosis::padding)
      .def_ro("contribution", &HeadDiagnosis::contribution)
      .def_ro("self", &HeadDiagnosis::self)
      .def_ro("previous", &HeadDiagnosis::previous)
      .def_ro("next", &HeadDiagnosis::next)
      .def_ro("diagonal", &HeadDiagnosis::diagonal)
      .def_ro("one_position", &HeadDiagnosis::one_position)
      .def_prop_ro("symptoms", symptoms);
  nb::class_<Repeat>(m, "Repeat", "The same tokens several times, one directly after the other.")
      .def_ro("at", &Repeat::at)
      .def_ro("length", &Repeat::length)
      .def_ro("times", &Repeat::times);
  nb::class_<OutputDiagnosis>(m, "OutputDiagnosis", "What an output leaves out or says again.")
      .def_ro("tokens", &OutputDiagnosis::tokens)
      .def_ro("coverage", &OutputDiagnosis::coverage)
      .def_ro("never_attended", &OutputDiagnosis::never_attended)
      .def_ro("repeat", &OutputDiagnosis::repeat);
  nb::class_<Diagnosis>(m, "Diagnosis", "What the attentions of a model do.")
      .def_ro("heads", &Diagnosis::heads)
      .def_ro("outputs", &Diagnosis::outputs)
      .def("text", &diagnosis_text, nb::arg("all_heads") = false)
      .def("json", &diagnosis_json);
  m.def(
      "diagnose",
      [](const std::filesystem::path& folder, const nb::dict& inputs, std::optional<int64_t> max_new_tokens,
         bool regime, int64_t longest_source, int64_t longest_target, int threads) {
        const TensorMap given = to_tensors(inputs);
        const nb::gil_scoped_release release;
        DiagnosisOptions options;
        options.max_new_tokens = max_new_tokens;
        options.regime = regime;
        options.longest_source = longest_source;
        options.longest_target = longest_target;
        options.session.threads = threads;
        options.prepare = fuse;
        return diagnose(folder, given, options);
      },
      nb::arg("folder"), nb::arg("inputs"), nb::kw_only(), nb::arg("max_new_tokens").none(), nb::arg("regime"),
      nb::arg("longest_source"), nb::arg("longest_target"), nb::arg("threads"));
}

}  // namespace attune::python
