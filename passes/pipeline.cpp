#include "passes/pass.h"

#include "graph/error.h"

namespace attune {

std::span<const Pass> pipeline() { return {}; }

void optimize(Model& model, Report& report, const PassOptions& options) {
  PassContext context{model, report, options};
  for (const Pass& pass : pipeline())
    report.pass_counts[std::string(pass.name)] +=
        within([&] { return "pass " + std::string(pass.name); }, [&] { return pass.run(context); });
}

}  // namespace attune
