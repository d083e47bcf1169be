#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert/cache_type.h"
#include "convert/convert.h"
#include "graph/error.h"
#include "python/bindings/bindings.h"
#include "python/bindings/tensors.h"

namespace attune::python {
namespace nb = nanobind;
namespace fs = std::filesystem;

namespace {

// Arguments that would do nothing.
void check_verification(const fs::path& source, bool verify, bool sizes, bool inputs) {
  const auto refuse = [](bool useless, const char* what) {
    if (useless) throw Error(Error::Kind::kInvalidArgument, what);
  };
  refuse(!verify && (sizes || inputs), "sizes and verify_inputs: expected verify=True with them");
  refuse(sizes && inputs, "sizes: expected no verify_inputs with them");
  refuse(inputs && fs::is_directory(source), "verify_inputs: expected one model, not a folder");
}

}  // namespace

void bind_convert(nb::module_& m) {
  nb::class_<Rewrite>(m, "Rewrite", "A change that a rule made.")
      .def_ro("rule", &Rewrite::rule)
      .def_ro("node", &Rewrite::node)
      .def_ro("result", &Rewrite::result)
      .def_ro("details", &Rewrite::details);
  nb::class_<NearMiss>(m, "NearMiss", "Why an attention was left: the rule that came nearest, and where it stopped.")
      .def_ro("rule", &NearMiss::rule)
      .def_ro("anchor", &NearMiss::anchor)
      .def_ro("path", &NearMiss::path)
      .def_ro("value", &NearMiss::value)
      .def_ro("reason", &NearMiss::reason);
  nb::class_<VerifiedCase>(m, "VerifiedCase", "Made-up inputs on which source and result were compared.")
      .def_ro("sizes", &VerifiedCase::sizes)
      .def_ro("refused", &VerifiedCase::refused)
      .def_ro("worst_output", &VerifiedCase::worst_output)
      .def_ro("absolute", &VerifiedCase::absolute)
      .def_ro("relative", &VerifiedCase::relative);
  nb::class_<Verification>(m, "Verification", "Whether the result computes what its source computes.")
      .def_ro("cases", &Verification::cases)
      .def_ro("largest_absolute", &Verification::largest_absolute)
      .def_ro("largest_relative", &Verification::largest_relative)
      .def_ro("tolerance", &Verification::tolerance)
      .def_ro("compared", &Verification::compared)
      .def_prop_ro("passed", &Verification::passed);
  nb::class_<ConvertedModel>(m, "ConvertedModel", "One model of a conversion.")
      .def_ro("source", &ConvertedModel::source)
      .def_ro("result", &ConvertedModel::result)
      .def_ro("attentions", &ConvertedModel::attentions)
      .def_ro("verification", &ConvertedModel::verification)
      .def_ro("rounded", &ConvertedModel::rounded, "Of the result with narrower weights, against the source.")
      .def_prop_ro("rewrites", [](const ConvertedModel& c) { return c.report.rewrites; })
      .def_prop_ro("near_misses", [](const ConvertedModel& c) { return c.report.near_misses; })
      .def_prop_ro("pass_counts", [](const ConvertedModel& c) { return c.report.pass_counts; })
      .def_prop_ro("notes", [](const ConvertedModel& c) { return c.report.notes; });
  nb::class_<Conversion>(m, "Conversion", "What a conversion did.")
      .def_ro("models", &Conversion::models)
      .def_ro("copied", &Conversion::copied)
      .def_ro("written", &Conversion::written);
  m.def(
      "convert",
      [](const fs::path& source, const fs::path& output, const std::string& target, bool verify,
         std::optional<double> tolerance, int64_t max_rewrites, const std::optional<std::string>& weights_type,
         bool rounded_activations, const std::optional<std::string>& kv_type, bool add_cache, int threads,
         const std::optional<GivenSizes>& sizes, const std::optional<nb::dict>& verify_inputs) {
        check_verification(source, verify, sizes.has_value(), verify_inputs.has_value());
        ConvertOptions options;
        options.target = target_from_name(target);
        options.verify = verify;
        options.verification.tolerance = tolerance;
        options.verification.threads = threads;
        options.passes.max_rewrites = max_rewrites;
        if (weights_type) options.weights.type = weights_type_from_name(*weights_type);
        options.weights.rounded_activations = rounded_activations;
        if (kv_type) options.cache_type = cache_type_from_name(*kv_type);
        options.add_cache = add_cache;
        if (sizes) options.verification.sizes = *sizes;
        if (verify_inputs) options.verification.inputs = to_tensors(*verify_inputs);
        const nb::gil_scoped_release released;
        return convert(source, output, options);
      },
      nb::arg("source"), nb::arg("output"), nb::kw_only(), nb::arg("target"), nb::arg("verify"),
      nb::arg("tolerance").none(), nb::arg("max_rewrites"), nb::arg("weights_type").none(),
      nb::arg("rounded_activations"), nb::arg("kv_type").none(), nb::arg("add_cache"), nb::arg("threads"),
      nb::arg("sizes").none(), nb::arg("verify_inputs").none());
}

}  // namespace attune::python
