// The extension module attune._attune, over the public interface of libattune. The package's Python files give it its
// shape.
#include <nanobind/nanobind.h>

#include "graph/error.h"
#include "python/bindings/bindings.h"

namespace attune::python {
namespace {

namespace nb = nanobind;

const char* kind_name(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kInvalidModel:
      return "invalid_model";
    case Error::Kind::kUnsupported:
      return "unsupported";
    case Error::Kind::kInvalidArgument:
      return "invalid_argument";
    case Error::Kind::kIo:
      return "io";
    case Error::Kind::kLimit:
      return "limit";
    case Error::Kind::kInternal:
      break;
  }
  return "internal";
}

// attune.Error(message), with `kind`.
void bind_error(nb::module_& m) {
  static PyObject* const type = PyErr_NewExceptionWithDoc(
      "attune.Error",
      "What attune refuses, with where, what was expected and what was found; `kind` says of which sort.",
      PyExc_RuntimeError, nullptr);
  m.attr("Error") = nb::handle(type);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      nb::object error = nb::handle(type)(nb::str(e.what()));
      error.attr("kind") = kind_name(e.kind());
      PyErr_SetObject(type, error.ptr());
    }
  });
}

}  // namespace
}  // namespace attune::python

NB_MODULE(_attune, m) {
  using namespace attune::python;
  m.doc() = "attune's C++ library";
  m.attr("version") = ATTUNE_VERSION;
  bind_error(m);
  bind_convert(m);
  bind_model(m);
  bind_generator(m);
  bind_diagnosis(m);
  bind_operators(m);
}
