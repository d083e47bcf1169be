// Sizes that graph outputs declare steer no rewrite, and are declared again behind all passes.
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "passes/passes.h"

namespace attune {
namespace {

// Inputs say what callers may give, and what is computed from their sizes is known.
TEST(DeclaredSizes, InputThatIsAnOutputKeepsThem) {
  Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4] x, float[B, 2] z) => (float[2, 4] x, float[B, 2] y)
    { s = Shape (x)
      f = Cast <to = 1> (s)
      y = Add (z, f) })");
  Report report;
  optimize(model, report);
  EXPECT_EQ(model.graph->inputs()[0]->type().to_string(), "float(2,4)");
  for (const auto& n : model.graph->topological_order()) EXPECT_EQ(n->type(), "Add");
}

}  // namespace
}  // namespace attune
