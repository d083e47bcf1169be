#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/error.h"
#include "python/bindings/bindings.h"
#include "python/bindings/tensors.h"
#include "runtime/generator.h"
#include "runtime/text/tokenizer.h"

namespace attune::python {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const Tokenizer> tokenizer(const fs::path& folder, bool target) {
  const GenerationOptions options = Generator::options_of(folder);
  const Tokenizers found = find_tokenizers(folder, options.eos_token_id.empty() ? -1 : options.eos_token_id.front());
  const auto& wanted = target ? found.target : found.source;
  if (!wanted) throw Error(Error::Kind::kIo, folder.string() + ": no tokenizer");
  return wanted;
}

}  // namespace

void bind_generator(nb::module_& m) {
  nb::class_<Generation>(m, "Generation", "One generated sequence.")
      .def_ro("tokens", &Generation::tokens, "The prompt, the new tokens, and the end of sequence if it came.")
      .def_ro("prompt_length", &Generation::prompt_length)
      .def_ro("score", &Generation::score, "Of a beam search, as Hugging Face's sequences_scores.")
      .def_ro("alignment", &Generation::alignment,
              "If asked for: a weight for each position of the source, for each new token.");
  nb::class_<Generator>(m, "Generator")
      .def(
          "__init__",
          [](Generator* self, const fs::path& folder, int threads, bool alignments) {
            GeneratorOptions options;
            options.session.threads = threads;
            options.alignments = alignments;
            new (self) Generator(Generator::load(folder, options));
          },
          nb::arg("folder"), nb::kw_only(), nb::arg("threads") = 0, nb::arg("alignments") = false,
          nb::call_guard<nb::gil_scoped_release>())
      .def("replica", &Generator::replica, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "generate",
          [](Generator& generator, const nb::dict& inputs, const std::string& options_json) {
            const TensorMap given = to_tensors(inputs);
            const nb::gil_scoped_release release;
            GenerationOptions options = generator.defaults();
            read_generation_options(options_json, options);
            check(options);
            return generator.generate(given, options);
          },
          nb::arg("inputs"), nb::arg("options_json"));
  nb::class_<Tokenizer>(m, "Tokenizer")
      .def(
          "encode", [](const Tokenizer& t, const std::string& text) { return t.encode(text); }, nb::arg("text"),
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "decode", [](const Tokenizer& t, const std::vector<int64_t>& ids) { return t.decode(ids); }, nb::arg("ids"),
          nb::call_guard<nb::gil_scoped_release>())
      .def("piece", &Tokenizer::piece, nb::arg("id"));
  m.def("load_tokenizer", &tokenizer, nb::arg("folder"), nb::kw_only(), nb::arg("target"),
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace attune::python
