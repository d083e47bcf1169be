#include "graph/inline.h"

#include "passes/passes.h"

namespace attune {

size_t inline_functions(PassContext& context) {
  Model& model = context.model;
  const size_t inlined = inline_calls(*model.graph, model);
  if (inlined == 0) return 0;
  for (const Function& f : model.functions)
    for (const auto& [domain, version] : f.opset_imports) model.opset_imports.try_emplace(domain, version);
  model.functions.clear();
  return inlined;
}

}  // namespace attune
