// How an operator is computed.
//
// A Kernel is made once per node of a plan (weights are packed then), is immutable, and is shared by all
// sessions and threads. run() is called with the inputs of one step; it asks for its outputs by shape, so that
// shapes may depend on values. What depends on shapes only (oneDNN primitives) a kernel keeps in a bounded
// cache of its own (see dnnl.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace attune {

class KernelCall;
class PanelStore;

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Computes the node. Throws Error(kInvalidArgument) for wrong types, ranks or shapes of inputs.
  virtual void run(KernelCall& call) const = 0;
  // "brgemm:avx2", "gemv:AVX3", "copy": what --profile and the tests on `ref` see. May depend on the last shapes.
  virtual std::string implementation() const { return "native"; }
  // True if run() takes strided views for input i (see Tensor::strided_view); else it gets contiguous copies.
  virtual bool accepts_strided(size_t /*input*/) const { return false; }
  // True if every output depends on the shapes of the inputs alone (Shape, Size): a session may skip it.
  virtual bool reads_shapes_only() const { return false; }
  // False if run() never looks at input i, because the kernel took it in when it was made (packed weights): the
  // session then neither computes nor keeps it.
  virtual bool uses_input(size_t /*input*/) const { return true; }
};

// A body of If, Loop or Scan, compiled by the runtime.
class Subprogram {
 public:
  virtual ~Subprogram() = default;
  virtual size_t input_count() const = 0;
  virtual size_t output_count() const = 0;
};

// Machine and precision choices of a plan that kernels follow.
struct KernelOptions {
  bool pack_weights = true;  // false: keep weights as they are (less memory, slower)
  // Packed weights that outlive the process (see panel_store.h); null: packed when a plan is made.
  std::shared_ptr<PanelStore> panel_store;
  // Products round their other operand, too: only where the model allows it, see below. kInt16: those with 16-bit
  // weights, to 16 bits; kInt8: those, and to 8 bits those with int8 and int4 weights.
  enum class Activations { kFloat, kInt16, kInt8 };
  Activations activations = Activations::kFloat;
};

// Metadata of a model: what it allows, "int16" or "int8".
inline constexpr std::string_view kActivationsKey = "attune.activations";

// What a kernel may know when it is made.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual const Node& node() const = 0;
  // Version of the node's domain that the model (or function body) imports.
  virtual int64_t opset() const = 0;
  // The value of input i if it is known now: a constant. Null otherwise.
  virtual const Tensor* constant(size_t input) const = 0;
  // Compiles graph attribute `name`. Values of outer graphs that the body uses are handled by the runtime.
  virtual std::shared_ptr<const Subprogram> compile(std::string_view attribute) const = 0;
  virtual const KernelOptions& options() const = 0;

  size_t input_count() const { return node().inputs().size(); }
  bool has_input(size_t i) const { return node().input(i) != nullptr; }
  bool has_output(size_t i) const { return node().output(i) != nullptr; }
  // Static element type of input i; kUndefined if unknown or absent. Kernels check again at run time.
  DataType input_type(size_t i) const { return has_input(i) ? node().input(i)->element_type() : DataType::kUndefined; }
};

// One call of a kernel.
class KernelCall {
 public:
  virtual ~KernelCall() = default;

  virtual size_t input_count() const = 0;
  virtual size_t output_count() const = 0;
  // False for an output that nobody reads: it need not be set.
  virtual bool wants(size_t output) const = 0;

  // Input i as it is held; an undefined Datum if left out.
  virtual const Datum& datum(size_t input) const = 0;
  virtual void set_datum(size_t output, Datum value) = 0;
  // Takes input i out of the session's hands if this is its last use, so that its memory may be written in place
  // when Tensor::unique() holds; else gives a copy that shares memory.
  virtual Datum take(size_t input) = 0;
  // Memory for outputs and scratch.
  virtual BufferPool* pool() const = 0;
  // Runs a body; its results replace `values`.
  virtual void run(const Subprogram& body, std::vector<Datum>& values) = 0;

  // --- for tensors
  bool has(size_t input) const { return input < input_count() && datum(input).defined(); }
  // Input i. Throws Error(kInvalidArgument) that names the input if it is left out or no tensor.
  const Tensor& input(size_t i) const;
  // As input(i), or null if it is left out.
  const Tensor* optional_input(size_t i) const;
  // A new uninitialised tensor that becomes output i.
  virtual Tensor& output(size_t i, DataType type, const Shape& shape);
  void set_output(size_t i, Tensor value) { set_datum(i, Datum(std::move(value))); }
  // Scratch memory that lives until the reference goes.
  BufferRef scratch(size_t bytes) { return pool() ? pool()->acquire(bytes) : BufferRef::allocate(bytes); }

 protected:
  virtual Tensor& stored_tensor(size_t output) = 0;
};

// Throws Error(kInvalidArgument) "input 1: expected ..., got ...".
[[noreturn]] void fail_input(size_t input, std::string_view expected, std::string_view got);
void expect_type(const Tensor& tensor, size_t input, DataType type);
void expect_rank(const Tensor& tensor, size_t input, size_t rank);

// Calls f.template operator()<T>() with the C++ type of `type`, if it is one of Ts; else throws
// Error(kUnsupported) that names the type.
[[noreturn]] void fail_type(DataType type);
template <class... Ts, class F>
decltype(auto) dispatch(DataType type, F&& f) {
  using Result = std::common_type_t<decltype(f.template operator()<Ts>())...>;
  if constexpr (std::is_void_v<Result>) {
    const bool found = ((type == kDataTypeOf<Ts> ? (f.template operator()<Ts>(), true) : false) || ...);
    if (!found) fail_type(type);
  } else {
    Result result{};
    const bool found = ((type == kDataTypeOf<Ts> ? (result = f.template operator()<Ts>(), true) : false) || ...);
    if (!found) fail_type(type);
    return result;
  }
}

}  // namespace attune
