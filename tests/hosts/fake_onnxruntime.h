// The host's side of ONNX Runtime's C interface, as far as the plug-in calls it: a domain of operators, one node at a
// time, and a thread for each part of a parallel loop.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "graph/data_type.h"
#include "ops/hosts/onnxruntime/ort_api.h"

namespace attune::ort {

struct Status {
  int code;
  std::string message;
};
struct CustomOpDomain {
  std::string name;
  std::vector<const CustomOp*> ops;
};
struct SessionOptions {
  std::vector<std::unique_ptr<CustomOpDomain>> domains;
};
struct Value {
  DataType type = DataType::kUndefined;
  std::vector<int64_t> shape;
  std::vector<float> data;
};
struct ShapeInfo {
  const Value* value;
};
struct KernelInfo {
  std::vector<std::string> inputs, outputs;  // an empty name: left out
  std::map<std::string, std::variant<int64_t, float, std::string>> attributes;
  std::map<size_t, Value> constants;
};
struct KernelContext {
  std::vector<const Value*> inputs;
  std::vector<Value> outputs;
};

}  // namespace attune::ort

namespace attune::testing {

// What a call of the host gives back, as the plug-in is to see it.
inline ort::Status* failure(std::string message) { return new ort::Status{ort::kFail, std::move(message)}; }

inline ort::Status* write_text(const std::string& text, char* to, size_t* size) {
  const size_t needed = text.size() + 1;
  const bool fits = to && *size >= needed;
  *size = needed;
  if (!to) return nullptr;
  if (!fits) return failure("too small");
  std::memcpy(to, text.c_str(), needed);
  return nullptr;
}

template <class T>
ort::Status* read_attribute(const ort::KernelInfo* info, const char* name, T* to) {
  const auto it = info->attributes.find(name);
  if (it == info->attributes.end() || !std::holds_alternative<T>(it->second)) return failure("no such attribute");
  *to = std::get<T>(it->second);
  return nullptr;
}

class FakeOnnxRuntime {
 public:
  FakeOnnxRuntime() {
    using namespace ort;
    set<kCreateStatus>(+[](int code, const char* message) { return new Status{code, message}; });
    set<kReleaseStatus>(+[](Status* s) { delete s; });
    set<kCreateCustomOpDomain>(+[](const char* name, CustomOpDomain** out) -> Status* {
      *out = new CustomOpDomain{name, {}};
      return nullptr;
    });
    set<kCustomOpDomainAdd>(+[](CustomOpDomain* domain, const CustomOp* op) -> Status* {
      domain->ops.push_back(op);
      return nullptr;
    });
    set<kAddCustomOpDomain>(+[](SessionOptions* options, CustomOpDomain* domain) -> Status* {
      options->domains.emplace_back(domain);
      return nullptr;
    });
    set_tensors();
    set_kernel_info();
    set_kernel_context();
  }

  const ort::Api* api() const { return reinterpret_cast<const ort::Api*>(slots_); }

 private:
  template <ort::Slot S, class F>
  void set(F* f) {
    slots_[S] = reinterpret_cast<void*>(f);
  }

  void set_tensors() {
    using namespace ort;
    set<kGetTensorTypeAndShape>(+[](const Value* value, ShapeInfo** out) -> Status* {
      *out = new ShapeInfo{value};
      return nullptr;
    });
    set<kReleaseTensorTypeAndShapeInfo>(+[](ShapeInfo* info) { delete info; });
    set<kGetTensorElementType>(+[](const ShapeInfo* info, int* out) -> Status* {
      *out = static_cast<int>(info->value->type);
      return nullptr;
    });
    set<kGetDimensionsCount>(+[](const ShapeInfo* info, size_t* out) -> Status* {
      *out = info->value->shape.size();
      return nullptr;
    });
    set<kGetDimensions>(+[](const ShapeInfo* info, int64_t* out, size_t count) -> Status* {
      std::copy_n(info->value->shape.begin(), count, out);
      return nullptr;
    });
    set<kGetTensorMutableData>(+[](Value* value, void** out) -> Status* {
      *out = value->data.data();
      return nullptr;
    });
  }

  void set_kernel_info() {
    using namespace ort;
    set<kKernelInfoGetInputCount>(+[](const KernelInfo* info, size_t* out) -> Status* {
      *out = info->inputs.size();
      return nullptr;
    });
    set<kKernelInfoGetOutputCount>(+[](const KernelInfo* info, size_t* out) -> Status* {
      *out = info->outputs.size();
      return nullptr;
    });
    set<kKernelInfoGetInputName>(+[](const KernelInfo* info, size_t i, char* to, size_t* size) {
      return write_text(info->inputs[i], to, size);
    });
    set<kKernelInfoGetOutputName>(+[](const KernelInfo* info, size_t i, char* to, size_t* size) {
      return write_text(info->outputs[i], to, size);
    });
    set<kKernelInfoGetNodeName>(
        +[](const KernelInfo*, char* to, size_t* size) { return write_text("node", to, size); });
    set<kKernelInfoGetAttributeInt64>(&read_attribute<int64_t>);
    set<kKernelInfoGetAttributeFloat>(&read_attribute<float>);
    set<kKernelInfoGetAttributeString>(
        +[](const KernelInfo* info, const char* name, char* to, size_t* size) -> Status* {
          std::string text;
          Status* const absent = read_attribute(info, name, &text);
          if (absent) *size = 0;
          return absent ? absent : write_text(text, to, size);
        });
    set<kKernelInfoGetAttributeArrayInt64>(+[](const KernelInfo*, const char*, int64_t*, size_t* size) -> Status* {
      *size = 0;
      return failure("no such attribute");
    });
    set<kKernelInfoGetConstantInputTensor>(
        +[](const KernelInfo* info, size_t i, int* constant, const Value** out) -> Status* {
          const auto it = info->constants.find(i);
          *constant = it != info->constants.end();
          *out = *constant ? &it->second : nullptr;
          return nullptr;
        });
  }

  void set_kernel_context() {
    using namespace ort;
    set<kKernelContextGetInputCount>(+[](const KernelContext* context, size_t* out) -> Status* {
      *out = context->inputs.size();
      return nullptr;
    });
    set<kKernelContextGetInput>(+[](const KernelContext* context, size_t i, const Value** out) -> Status* {
      *out = context->inputs[i];
      return nullptr;
    });
    set<kKernelContextGetOutput>(
        +[](KernelContext* context, size_t i, const int64_t* dims, size_t rank, Value** out) -> Status* {
          size_t count = 1;
          for (size_t d = 0; d < rank; ++d) count *= static_cast<size_t>(dims[d]);
          context->outputs[i] = {DataType::kFloat, {dims, dims + rank}, std::vector<float>(count)};
          *out = &context->outputs[i];
          return nullptr;
        });
    set<kKernelContextParallelFor>(
        +[](const KernelContext*, void (*f)(void*, size_t), size_t total, size_t, void* data) -> Status* {
          std::vector<std::jthread> threads;
          for (size_t i = 0; i < total; ++i) threads.emplace_back(f, data, i);
          return nullptr;
        });
  }

  void* slots_[300] = {};
};

}  // namespace attune::testing
