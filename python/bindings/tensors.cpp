#include "python/bindings/tensors.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "graph/error.h"

namespace attune::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct NumpyType {
  DataType type;
  nb::dlpack::dtype dtype;
};

constexpr nb::dlpack::dtype dtype_of(Code code, uint8_t bits) { return {static_cast<uint8_t>(code), bits, 1}; }

constexpr NumpyType kTypes[] = {
    {DataType::kFloat, dtype_of(Code::Float, 32)},       {DataType::kDouble, dtype_of(Code::Float, 64)},
    {DataType::kFloat16, dtype_of(Code::Float, 16)},     {DataType::kInt8, dtype_of(Code::Int, 8)},
    {DataType::kInt16, dtype_of(Code::Int, 16)},         {DataType::kInt32, dtype_of(Code::Int, 32)},
    {DataType::kInt64, dtype_of(Code::Int, 64)},         {DataType::kUInt8, dtype_of(Code::UInt, 8)},
    {DataType::kUInt16, dtype_of(Code::UInt, 16)},       {DataType::kUInt32, dtype_of(Code::UInt, 32)},
    {DataType::kUInt64, dtype_of(Code::UInt, 64)},       {DataType::kBool, dtype_of(Code::Bool, 8)},
    {DataType::kComplex64, dtype_of(Code::Complex, 64)}, {DataType::kComplex128, dtype_of(Code::Complex, 128)}};

[[noreturn]] void refuse(const std::string& what) { throw Error(Error::Kind::kInvalidArgument, what); }

using View = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;

// Keeps an array alive; may be let go on a thread without the interpreter's lock.
std::shared_ptr<const void> keep_alive(View view) {
  return {new View(std::move(view)), [](const View* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

Tensor to_text(nb::handle array) {
  Shape shape;
  for (nb::handle d : array.attr("shape")) shape.push_back(nb::cast<int64_t>(d));
  std::vector<std::string> values;
  for (nb::handle item : array.attr("ravel")().attr("tolist")()) {
    if (nb::isinstance<nb::bytes>(item)) {
      values.emplace_back(nb::cast<nb::bytes>(item).c_str(), nb::cast<nb::bytes>(item).size());
    } else if (nb::isinstance<nb::str>(item)) {
      values.push_back(nb::cast<std::string>(item));
    } else {
      refuse("an array of objects that are no text");
    }
  }
  return Tensor::from_strings(shape, std::move(values));
}

DataType type_of(const nb::dlpack::dtype& dtype) {
  for (const NumpyType& t : kTypes)
    if (t.dtype == dtype) return t.type;
  return DataType::kUndefined;
}

}  // namespace

namespace {

Tensor to_tensor(View view, DataType type) {
  Shape shape;
  for (size_t i = 0; i < view.ndim(); ++i) shape.push_back(static_cast<int64_t>(view.shape(i)));
  static const std::byte kNothing{};
  const void* data = view.size() > 0 ? view.data() : &kNothing;
  const size_t bytes = view.nbytes();
  return Tensor::from_buffer(type, shape, BufferRef::view(data, bytes, keep_alive(std::move(view))));
}

}  // namespace

Tensor to_tensor(nb::handle given) {
  View view;
  if (nb::try_cast(given, view, false)) {
    if (const DataType type = type_of(view.dtype()); type != DataType::kUndefined)
      return to_tensor(std::move(view), type);
  }
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(given, nb::arg("order") = "C");
  const auto name = nb::cast<std::string>(array.attr("dtype").attr("name"));
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (kind == "U" || kind == "S" || kind == "O") return to_text(array);
  const bool bfloat16 = name == "bfloat16";
  if (bfloat16) array = array.attr("view")("uint16");
  if (!nb::cast<bool>(array.attr("dtype").attr("isnative")))
    array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  if (!nb::try_cast(array, view)) refuse(fmt::format("an array of type {}", name));
  const DataType type = bfloat16 ? DataType::kBFloat16 : type_of(view.dtype());
  if (type == DataType::kUndefined) refuse(fmt::format("an array of type {}", name));
  return to_tensor(std::move(view), type);
}

nb::object to_array(const Tensor& tensor) {
  if (tensor.type() == DataType::kString) {
    nb::list values;
    for (const std::string& s : tensor.strings()) values.append(nb::str(s.data(), s.size()));
    std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    const nb::module_ numpy = nb::module_::import_("numpy");
    return numpy.attr("array")(values, nb::arg("dtype") = "object").attr("reshape")(shape);
  }
  const bool bfloat16 = tensor.type() == DataType::kBFloat16;
  const DataType held = bfloat16 ? DataType::kUInt16 : tensor.type();
  for (const NumpyType& t : kTypes) {
    if (t.type != held) continue;
    // What others hold too (a weight, the caller's own input) may be looked at, not changed.
    const bool own = tensor.unique();
    auto* owner = new Tensor(tensor);
    const nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
    std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
    std::vector<int64_t> strides;
    if (!tensor.contiguous()) strides.assign(tensor.strides().begin(), tensor.strides().end());
    const int64_t* steps = strides.empty() ? nullptr : strides.data();
    nb::object out =
        own ? nb::cast(
                  nb::ndarray<nb::numpy>(owner->mutable_raw(), shape.size(), shape.data(), capsule, steps, t.dtype),
                  nb::rv_policy::reference)
            : nb::cast(
                  nb::ndarray<nb::numpy, nb::ro>(owner->raw(), shape.size(), shape.data(), capsule, steps, t.dtype),
                  nb::rv_policy::reference);
    if (bfloat16) out = out.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    return out;
  }
  throw Error(Error::Kind::kUnsupported, fmt::format("NumPy has no type {}", name(tensor.type())));
}

nb::object to_object(const Datum& value) {
  switch (value.kind()) {
    case Datum::Kind::kNone:
      return nb::none();
    case Datum::Kind::kTensor:
      return to_array(value.tensor());
    case Datum::Kind::kOptional:
      return value.elements().empty() ? nb::none() : to_object(value.elements().front());
    case Datum::Kind::kSequence:
      break;
  }
  nb::list out;
  for (const Datum& element : value.elements()) out.append(to_object(element));
  return out;
}

TensorMap to_tensors(const nb::dict& arrays) {
  TensorMap out;
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    within("input '" + name + "'", [&] { out.emplace(name, Datum(to_tensor(value))); });
  }
  return out;
}

nb::dict to_dict(const TensorMap& values) {
  nb::dict out;
  for (const auto& [name, value] : values)
    within("output '" + name + "'", [&] { out[nb::str(name.c_str())] = to_object(value); });
  return out;
}

}  // namespace attune::python
