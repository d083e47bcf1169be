// Sizes that graph outputs declare steer no rewrite, and are declared again behind all passes.
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "passes/passes.h"

namespace attune {
namespace {

std::string input_type_after_passes(const char* text) {
  Model model = parse_model(text);
  Report report;
  optimize(model, report);
  return model.graph->inputs()[0]->type().to_string();
}

// Inputs say what callers may give.
TEST(DeclaredSizes, InputThatIsAnOutputKeepsThem) {
  EXPECT_EQ(input_type_after_passes(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4] x, float[B, 4] z) => (float[2, 4] x, float[B, 4] y) { y = Neg (z) })"),
            "float(2,4)");
}

}  // namespace
}  // namespace attune
