// libattune_onnxruntime.so: registers the ai.attune operators with ONNX Runtime (register_custom_ops_library).
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "graph/error.h"
#include "ops/evaluate.h"
#include "ops/hosts/hosted_node.h"
#include "ops/hosts/onnxruntime/ort_api.h"
#include "ops/support/parallel.h"

namespace attune::ort {
namespace {

// A status of the host, as an exception until it is handed back.
struct HostFailure {
  Status* status;
};

void check(Status* status) {
  if (status) throw HostFailure{status};
}

// Runs `body`; what it throws becomes a status.
template <class F>
Status* guarded(const Api* api, F&& body) noexcept {
  const auto fail = [&](int code, const char* what) {
    return call<kCreateStatus, Status*(int, const char*)>(api, code, what);
  };
  try {
    body();
    return nullptr;
  } catch (const HostFailure& f) {
    return f.status;
  } catch (const Error& e) {
    return fail(e.kind() == Error::Kind::kUnsupported ? kNotImplemented : kInvalidArgument,
                (std::string("attune: ") + e.what()).c_str());
  } catch (const std::exception& e) {
    return fail(kFail, (std::string("attune: ") + e.what()).c_str());
  }
}

struct View {
  DataType type;
  Shape shape;
  std::byte* data;
};

View view(const Api* api, const Value* value) {
  ShapeInfo* info = nullptr;
  check(call<kGetTensorTypeAndShape, Status*(const Value*, ShapeInfo**)>(api, value, &info));
  const std::unique_ptr<ShapeInfo, void (*)(ShapeInfo*)> release(
      info, reinterpret_cast<void (*)(ShapeInfo*)>(api->slots[kReleaseTensorTypeAndShapeInfo]));
  int type = 0;
  size_t rank = 0;
  check(call<kGetTensorElementType, Status*(const ShapeInfo*, int*)>(api, info, &type));
  check(call<kGetDimensionsCount, Status*(const ShapeInfo*, size_t*)>(api, info, &rank));
  View v{static_cast<DataType>(type), {}, nullptr};
  v.shape.resize(rank);
  check(call<kGetDimensions, Status*(const ShapeInfo*, int64_t*, size_t)>(api, info, v.shape.begin(), rank));
  void* data = nullptr;
  check(call<kGetTensorMutableData, Status*(Value*, void**)>(api, const_cast<Value*>(value), &data));
  v.data = static_cast<std::byte*>(data);
  return v;
}

// A tensor over the host's memory: shared, so that no kernel writes to an input in place.
Tensor borrow(const View& v) {
  static const auto kHost = std::make_shared<const int>(0);
  const size_t bytes = storage_bytes(v.type, static_cast<size_t>(v.shape.count()));
  static const std::byte kNothing{};
  return Tensor::from_buffer(v.type, v.shape, BufferRef::view(v.data ? v.data : &kNothing, bytes, kHost));
}

// One call: inputs are the host's tensors, and outputs are allocated by the host.
class HostCall : public SimpleCall {
 public:
  HostCall(const Api* api, KernelContext* context, std::vector<Datum> inputs, size_t outputs, BufferPool* pool)
      : SimpleCall(std::move(inputs), outputs, pool), api_(api), context_(context) {}

  Tensor& output(size_t i, DataType type, const Shape& shape) override {
    if (!wants(i)) return SimpleCall::output(i, type, shape);
    SimpleCall::set_datum(i, Datum(borrow(allocate(i, type, shape))));
    return stored_tensor(i);
  }
  void set_datum(size_t i, Datum value) override {
    if (!wants(i)) return;
    const Tensor t = value.tensor().to_contiguous(pool());
    const View to = allocate(i, t.type(), t.shape());
    if (t.bytes() > 0) std::memcpy(to.data, t.raw(), t.bytes());
  }

 private:
  View allocate(size_t i, DataType type, const Shape& shape) {
    Value* value = nullptr;
    check(call<kKernelContextGetOutput, Status*(KernelContext*, size_t, const int64_t*, size_t, Value**)>(
        api_, context_, i, shape.data(), shape.rank(), &value));
    const View v = view(api_, value);
    if (v.type != type)
      throw Error(Error::Kind::kInternal,
                  fmt::format("output {} is {}, the host expects {}", i, name(type), name(v.type)));
    return v;
  }

  const Api* api_;
  KernelContext* context_;
};

std::string port_name(const Api* api, const KernelInfo* info, Slot slot, size_t index) {
  using F = Status*(const KernelInfo*, size_t, char*, size_t*);
  const auto get = reinterpret_cast<F*>(api->slots[slot]);
  size_t size = 0;
  if (Status* s = get(info, index, nullptr, &size)) {
    call<kReleaseStatus, void(Status*)>(api, s);
    if (size == 0) return {};
  }
  std::string text(size, '\0');
  check(get(info, index, text.data(), &size));
  text.resize(std::strlen(text.c_str()));
  return text;
}

using AttributeKind = AttributeSignature::Kind;

// The attribute of that name if the node has it, of that kind.
std::optional<Attribute> read_attribute(const Api* api, const KernelInfo* info, const std::string& name,
                                        AttributeKind kind) {
  const auto absent = [&](Status* s) {
    if (s) call<kReleaseStatus, void(Status*)>(api, s);
    return s != nullptr;
  };
  switch (kind) {
    case AttributeKind::kInt: {
      int64_t v = 0;
      if (absent(call<kKernelInfoGetAttributeInt64, Status*(const KernelInfo*, const char*, int64_t*)>(
              api, info, name.c_str(), &v)))
        return std::nullopt;
      return v;
    }
    case AttributeKind::kFloat: {
      float v = 0;
      if (absent(call<kKernelInfoGetAttributeFloat, Status*(const KernelInfo*, const char*, float*)>(api, info,
                                                                                                     name.c_str(), &v)))
        return std::nullopt;
      return v;
    }
    case AttributeKind::kString: {
      size_t size = 0;
      using F = Status*(const KernelInfo*, const char*, char*, size_t*);
      absent(call<kKernelInfoGetAttributeString, F>(api, info, name.c_str(), static_cast<char*>(nullptr), &size));
      if (size == 0) return std::nullopt;
      std::string v(size, '\0');
      check(call<kKernelInfoGetAttributeString, F>(api, info, name.c_str(), v.data(), &size));
      v.resize(std::strlen(v.c_str()));
      return v;
    }
    case AttributeKind::kInts: {
      size_t size = 0;
      using F = Status*(const KernelInfo*, const char*, int64_t*, size_t*);
      absent(
          call<kKernelInfoGetAttributeArrayInt64, F>(api, info, name.c_str(), static_cast<int64_t*>(nullptr), &size));
      if (size == 0) return std::nullopt;
      std::vector<int64_t> v(size);
      check(call<kKernelInfoGetAttributeArrayInt64, F>(api, info, name.c_str(), v.data(), &size));
      return v;
    }
  }
  return std::nullopt;
}

// The custom operator for one type T (and one type of mask, and of weights).
struct HostOp : CustomOp {
  const OperatorSignature* signature = nullptr;
  std::string name;
  DataType type{}, mask{}, weight{};

  int port_type(const PortSignature& p) const {
    switch (p.type) {
      case PortType::kT:
        return static_cast<int>(type);
      case PortType::kMask:
        return static_cast<int>(mask);
      case PortType::kWeight:
        return static_cast<int>(weight);
      case PortType::kInt64:
        return static_cast<int>(DataType::kInt64);
    }
    return 0;
  }
};

// The host's pool, for the time of one call.
class HostWorkers : public Workers {
 public:
  HostWorkers(const Api* api, const KernelContext* context) : api_(api), context_(context) {}

  // The host doesn't tell how many threads a session has: one for each core is its default.
  int count() const override {
    static const int cores = omp_get_num_procs();
    return cores;
  }
  void run(int parts, void (*f)(void*, int), void* data) override {
    // The atomics order the parts within the call, whatever the host's pool does by itself.
    struct Call {
      void (*f)(void*, int);
      void* data;
      std::atomic<bool> ready{false};
      std::atomic<int> done{0};
    } inner{f, data};
    using PartFunction = void (*)(void*, size_t);
    const PartFunction part = [](void* c, size_t i) {
      auto* const loop = static_cast<Call*>(c);
      (void)loop->ready.load(std::memory_order_acquire);
      loop->f(loop->data, static_cast<int>(i));
      loop->done.fetch_add(1, std::memory_order_release);
    };
    inner.ready.store(true, std::memory_order_release);
    check(call<kKernelContextParallelFor, Status*(const KernelContext*, PartFunction, size_t, size_t, void*)>(
        api_, context_, part, static_cast<size_t>(parts), size_t{0}, &inner));
    if (const int done = inner.done.load(std::memory_order_acquire); done != parts)
      throw Error(Error::Kind::kInternal, fmt::format("the host ran {} of {} parts of a loop", done, parts));
  }

 private:
  const Api* api_;
  const KernelContext* context_;
};

Attributes read_attributes(const Api* api, const KernelInfo* info, const OperatorSignature& signature) {
  Attributes attributes;
  for (const AttributeSignature& a : signature.attributes) {
    const std::string name(a.name);
    if (auto value = read_attribute(api, info, name, a.kind)) {
      attributes.emplace(a.name, std::move(*value));
      continue;
    }
    // The host only tells that there is none of this kind.
    for (const auto other : {AttributeKind::kInt, AttributeKind::kFloat, AttributeKind::kString, AttributeKind::kInts})
      if (other != a.kind && read_attribute(api, info, name, other))
        throw Error(Error::Kind::kInvalidModel,
                    fmt::format("{}: attribute '{}' is of another type", signature.name, name));
  }
  return attributes;
}

std::string node_name(const Api* api, const KernelInfo* info) {
  size_t size = 0;
  using F = Status*(const KernelInfo*, char*, size_t*);
  if (Status* s = call<kKernelInfoGetNodeName, F>(api, info, static_cast<char*>(nullptr), &size))
    call<kReleaseStatus, void(Status*)>(api, s);
  std::string name(size, '\0');
  if (size > 0) check(call<kKernelInfoGetNodeName, F>(api, info, name.data(), &size));
  return name.c_str();
}

HostedInput hosted_input(const HostOp& op, const Api* api, const KernelInfo* info, size_t i) {
  HostedInput input;
  input.name = port_name(api, info, kKernelInfoGetInputName, i);
  if (input.name.empty()) return input;
  input.type = static_cast<DataType>(op.port_type(op.signature->inputs.at(i)));
  int constant = 0;
  const Value* value = nullptr;
  check(call<kKernelInfoGetConstantInputTensor, Status*(const KernelInfo*, size_t, int*, const Value**)>(
      api, info, i, &constant, &value));
  if (constant && value) input.constant = borrow(view(api, value));
  return input;
}

HostedNode hosted_node(const HostOp& op, const Api* api, const KernelInfo* info) {
  size_t input_count = 0, output_count = 0;
  check(call<kKernelInfoGetInputCount, Status*(const KernelInfo*, size_t*)>(api, info, &input_count));
  check(call<kKernelInfoGetOutputCount, Status*(const KernelInfo*, size_t*)>(api, info, &output_count));
  std::vector<HostedInput> inputs;
  for (size_t i = 0; i < input_count; ++i) inputs.push_back(hosted_input(op, api, info, i));
  std::vector<bool> outputs;
  for (size_t i = 0; i < output_count; ++i)
    outputs.push_back(!port_name(api, info, kKernelInfoGetOutputName, i).empty());
  return {*op.signature, node_name(api, info), std::move(inputs), outputs, read_attributes(api, info, *op.signature)};
}

// A node of a session. Stateless between calls; any number of threads may call run().
class HostKernel {
 public:
  HostKernel(const HostOp& op, const Api* api, const KernelInfo* info) : api_(api), node_(hosted_node(op, api, info)) {}

  const Api* api() const { return api_; }

  void run(KernelContext* context) const {
    size_t count = 0;
    check(call<kKernelContextGetInputCount, Status*(const KernelContext*, size_t*)>(api_, context, &count));
    std::vector<Datum> inputs(count);
    for (size_t i = 0; i < count; ++i) {
      if (!node_.uses_input(i)) continue;
      const Value* value = nullptr;
      check(
          call<kKernelContextGetInput, Status*(const KernelContext*, size_t, const Value**)>(api_, context, i, &value));
      if (value) inputs[i] = Datum(borrow(view(api_, value)));
    }
    HostCall host(api_, context, std::move(inputs), node_.output_count(), node_.pool());
    for (size_t i = 0; i < node_.output_count(); ++i) host.set_wanted(i, node_.wants(i));
    HostWorkers workers(api_, context);
    const WorkersScope scope(workers);
    node_.run(host);
  }

 private:
  const Api* api_;
  HostedNode node_;
};

const HostOp& host_op(const CustomOp* op) { return *static_cast<const HostOp*>(op); }

HostOp make_op(const OperatorSignature& signature, DataType type, DataType mask, DataType weight) {
  HostOp op;
  op.signature = &signature;
  op.name = std::string(signature.name);
  op.type = type;
  op.mask = mask;
  op.weight = weight;
  op.get_name = [](const CustomOp* o) { return host_op(o).name.c_str(); };
  op.get_execution_provider_type = [](const CustomOp*) -> const char* { return nullptr; };  // the CPU
  op.get_input_type_count = [](const CustomOp* o) { return host_op(o).signature->inputs.size(); };
  op.get_output_type_count = [](const CustomOp* o) { return host_op(o).signature->outputs.size(); };
  op.get_input_type = [](const CustomOp* o, size_t i) { return host_op(o).port_type(host_op(o).signature->inputs[i]); };
  op.get_output_type = [](const CustomOp* o, size_t i) {
    return host_op(o).port_type(host_op(o).signature->outputs[i]);
  };
  op.get_input_characteristic = [](const CustomOp* o, size_t i) {
    return host_op(o).signature->inputs[i].optional ? kOptional : kRequired;
  };
  op.get_output_characteristic = [](const CustomOp* o, size_t i) {
    return host_op(o).signature->outputs[i].optional ? kOptional : kRequired;
  };
  op.get_input_memory_type = [](const CustomOp*, size_t) { return 0; };
  op.get_variadic_input_min_arity = op.get_variadic_output_min_arity = [](const CustomOp*) { return 1; };
  op.get_variadic_input_homogeneity = op.get_variadic_output_homogeneity = [](const CustomOp*) { return 1; };
  op.get_start_version = [](const CustomOp*) { return 1; };
  op.get_end_version = [](const CustomOp*) { return 0x7fffffff; };
  op.create_kernel_v2 = [](const CustomOp* o, const Api* api, const KernelInfo* info, void** kernel) {
    return guarded(api, [&] { *kernel = new HostKernel(host_op(o), api, info); });
  };
  op.kernel_compute_v2 = [](void* kernel, KernelContext* context) {
    const auto& host = *static_cast<const HostKernel*>(kernel);
    return guarded(host.api(), [&] { host.run(context); });
  };
  op.kernel_destroy = [](void* kernel) { delete static_cast<HostKernel*>(kernel); };
  return op;
}

// Never destroyed: sessions refer to them until the process ends.
const std::deque<HostOp>& all_host_ops() {
  static const auto* const ops = [] {
    auto* list = new std::deque<HostOp>;
    for (const OperatorSignature& s : operator_signatures()) {
      const auto has = [&](PortType type) {
        return std::any_of(s.inputs.begin(), s.inputs.end(), [&](const auto& p) { return p.type == type; });
      };
      for (const DataType type : s.types) {
        list->push_back(make_op(s, type, DataType::kBool, type));
        if (has(PortType::kMask)) list->push_back(make_op(s, type, type, type));
        if (has(PortType::kWeight) && type == DataType::kFloat)
          for (const DataType half : {DataType::kFloat16, DataType::kBFloat16})
            list->push_back(make_op(s, type, DataType::kBool, half));
      }
    }
    return list;
  }();
  return *ops;
}

}  // namespace
}  // namespace attune::ort

extern "C" __attribute__((visibility("default"))) attune::ort::Status* RegisterCustomOps(
    attune::ort::SessionOptions* options, const attune::ort::ApiBase* base) {
  using namespace attune::ort;
  const Api* api = base->get_api(kApiVersion);
  if (!api) {
    // Slot 0 of version 1 makes the status; that table is part of every release.
    const std::string message =
        fmt::format("attune needs ONNX Runtime's API version {} (release 1.{}); this is release {}", kApiVersion,
                    kApiVersion, base->get_version());
    return call<kCreateStatus, Status*(int, const char*)>(base->get_api(1), kFail, message.c_str());
  }
  return guarded(api, [&] {
    CustomOpDomain* domain = nullptr;  // lives as long as the sessions: never released
    check(call<kCreateCustomOpDomain, Status*(const char*, CustomOpDomain**)>(api, "ai.attune", &domain));
    for (const HostOp& op : all_host_ops())
      check(call<kCustomOpDomainAdd, Status*(CustomOpDomain*, const CustomOp*)>(api, domain,
                                                                                static_cast<const CustomOp*>(&op)));
    check(call<kAddCustomOpDomain, Status*(SessionOptions*, CustomOpDomain*)>(api, options, domain));
  });
}
