// Any text as a model.
#include <cstdint>
#include <string_view>

#include "graph/io/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    attune::Model model = attune::parse_model({reinterpret_cast<const char*>(data), size});
    model.graph->verify();
    attune::to_text(model);
  } catch (const attune::Error&) {
  }
  return 0;
}
