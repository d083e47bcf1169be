// What each file adds to the module attune._attune.
#pragma once

#include <nanobind/nanobind.h>

namespace attune::python {

void bind_convert(nanobind::module_& m);
void bind_diagnosis(nanobind::module_& m);
void bind_generator(nanobind::module_& m);
void bind_model(nanobind::module_& m);
void bind_operators(nanobind::module_& m);

}  // namespace attune::python
