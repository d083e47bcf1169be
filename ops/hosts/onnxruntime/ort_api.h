// ONNX Runtime's C interface, as far as the plug-in uses it.
//
// OrtApi is a table of function pointers to which releases only append, so a slot's number never changes; OrtCustomOp
// has a layout for each API version. Both are public facts of onnxruntime_c_api.h (checked against API versions 17 and
// 18 as the crate ort-sys declares them). No registry ships the headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attune::ort {

struct Status;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct Value;
struct ShapeInfo;
struct TypeInfo;
struct ShapeInferContext;

// The lowest version that has every slot below, and the OrtCustomOp layout that is declared here (ONNX Runtime 1.17).
inline constexpr uint32_t kApiVersion = 17;

enum ErrorCode : int { kFail = 1, kInvalidArgument = 2, kNotImplemented = 9 };
enum Characteristic : int { kRequired = 0, kOptional = 1 };

enum Slot : size_t {
  kCreateStatus = 0,
  kCreateCustomOpDomain = 26,
  kCustomOpDomainAdd = 27,
  kAddCustomOpDomain = 28,
  kGetTensorMutableData = 51,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kKernelInfoGetAttributeFloat = 85,
  kKernelInfoGetAttributeInt64 = 86,
  kKernelInfoGetAttributeString = 87,
  kKernelContextGetInputCount = 88,
  kKernelContextGetOutputCount = 89,
  kKernelContextGetInput = 90,
  kKernelContextGetOutput = 91,
  kReleaseStatus = 93,
  kReleaseTensorTypeAndShapeInfo = 99,
  kKernelInfoGetAttributeArrayInt64 = 163,
  kKernelInfoGetInputCount = 230,
  kKernelInfoGetOutputCount = 231,
  kKernelInfoGetInputName = 232,
  kKernelInfoGetOutputName = 233,
  kKernelInfoGetNodeName = 244,
  kKernelInfoGetConstantInputTensor = 249,
  kKernelContextParallelFor = 274
};

struct Api {
  void* slots[1];
};

struct ApiBase {
  const Api* (*get_api)(uint32_t version);  // null if the host is older
  const char* (*get_version)();
};

// Calls slot `S` with the arguments' types given by `F`.
template <Slot S, class F, class... Args>
decltype(auto) call(const Api* api, Args... args) {
  return reinterpret_cast<F*>(api->slots[S])(args...);
}

// OrtCustomOp of API version 17.
struct CustomOp {
  uint32_t version = kApiVersion;
  void* (*create_kernel)(const CustomOp*, const Api*, const KernelInfo*) = nullptr;
  const char* (*get_name)(const CustomOp*) = nullptr;
  const char* (*get_execution_provider_type)(const CustomOp*) = nullptr;
  int (*get_input_type)(const CustomOp*, size_t) = nullptr;
  size_t (*get_input_type_count)(const CustomOp*) = nullptr;
  int (*get_output_type)(const CustomOp*, size_t) = nullptr;
  size_t (*get_output_type_count)(const CustomOp*) = nullptr;
  void (*kernel_compute)(void*, KernelContext*) = nullptr;
  void (*kernel_destroy)(void*) = nullptr;
  Characteristic (*get_input_characteristic)(const CustomOp*, size_t) = nullptr;
  Characteristic (*get_output_characteristic)(const CustomOp*, size_t) = nullptr;
  int (*get_input_memory_type)(const CustomOp*, size_t) = nullptr;
  int (*get_variadic_input_min_arity)(const CustomOp*) = nullptr;
  int (*get_variadic_input_homogeneity)(const CustomOp*) = nullptr;
  int (*get_variadic_output_min_arity)(const CustomOp*) = nullptr;
  int (*get_variadic_output_homogeneity)(const CustomOp*) = nullptr;
  Status* (*create_kernel_v2)(const CustomOp*, const Api*, const KernelInfo*, void**) = nullptr;
  Status* (*kernel_compute_v2)(void*, KernelContext*) = nullptr;
  Status* (*infer_output_shapes)(const CustomOp*, ShapeInferContext*) = nullptr;
  int (*get_start_version)(const CustomOp*) = nullptr;
  int (*get_end_version)(const CustomOp*) = nullptr;
};

}  // namespace attune::ort
