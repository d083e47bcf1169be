// If: one of two bodies.
#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class IfKernel final : public Kernel {
 public:
  explicit IfKernel(const KernelContext& context)
      : then_(context.compile("then_branch")), else_(context.compile("else_branch")) {}

  void run(KernelCall& call) const override {
    expect_type(call.input(0), 0, DataType::kBool);
    const bool condition = read_integer(call, 0) != 0;
    std::vector<Datum> values;
    call.run(condition ? *then_ : *else_, values);
    for (size_t i = 0; i < values.size() && i < call.output_count(); ++i) call.set_datum(i, std::move(values[i]));
  }
  std::string implementation() const override { return "body"; }

 private:
  std::shared_ptr<const Subprogram> then_, else_;
};

}  // namespace

std::vector<OpDef> ops_in_if() { return {{"", "If", 1, prepare<IfKernel>}}; }

}  // namespace attune
