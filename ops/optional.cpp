// Optional, OptionalHasElement, OptionalGetElement.
#include "ops/op.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class OptionalKernel final : public Kernel {
 public:
  explicit OptionalKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const bool given = call.has(0);
    call.set_datum(0, given ? Datum::optional(call.take(0)) : Datum::optional());
  }
};

class HasElementKernel final : public Kernel {
 public:
  explicit HasElementKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const bool has =
        call.has(0) && (call.datum(0).kind() != Datum::Kind::kOptional || !call.datum(0).elements().empty());
    call.set_output(0, Tensor::scalar(has));
  }
};

// A tensor or sequence (from opset 18 on) is its own element.
class GetElementKernel final : public Kernel {
 public:
  explicit GetElementKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const bool optional = call.has(0) && call.datum(0).kind() == Datum::Kind::kOptional;
    if (!call.has(0) || (optional && call.datum(0).elements().empty()))
      fail_input(0, "an element", "an empty optional");
    if (optional) {
      call.set_datum(0, call.datum(0).elements()[0]);
    } else {
      call.set_datum(0, call.take(0));
    }
  }
};

}  // namespace

std::vector<OpDef> ops_in_optional() {
  return {{"", "Optional", 15, prepare<OptionalKernel>},
          {"", "OptionalHasElement", 15, prepare<HasElementKernel>},
          {"", "OptionalGetElement", 15, prepare<GetElementKernel>}};
}

}  // namespace attune
