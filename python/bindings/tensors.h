// Tensors of attune and arrays of NumPy, over the same memory.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "graph/tensor.h"
#include "runtime/session.h"

namespace attune::python {

namespace nb = nanobind;

// A tensor over the memory of `array`, which it keeps alive; a copy if the array is not contiguous in C order, or holds
// text. Arrays of ml_dtypes' bfloat16 are bfloat16. Throws Error(kInvalidArgument) for other kinds of values.
Tensor to_tensor(nb::handle array);
// An array over the memory of `tensor`, strides included. bfloat16 is ml_dtypes'; text is an array of objects.
// Throws Error(kUnsupported) for types that NumPy has not.
nb::object to_array(const Tensor& tensor);
// As to_array; a sequence becomes a list, an optional its element or None.
nb::object to_object(const Datum& value);

TensorMap to_tensors(const nb::dict& arrays);
nb::dict to_dict(const TensorMap& values);

}  // namespace attune::python
