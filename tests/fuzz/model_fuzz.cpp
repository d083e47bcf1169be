// Any bytes as a model: an Error, or a model that is written and read again as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/io/reader.h"
#include "graph/io/writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attune;
  try {
    Model model = read_model_bytes({reinterpret_cast<const char*>(data), size}, {}, {.external_data = false});
    model.graph->verify();
    model.graph->clone()->verify();
    // Tensors in external files weren't read: such a model can't be written.
    bool whole = true;
    for (const auto& v : model.graph->constants()) whole = whole && v->constant();
    if (!whole) return 0;
    const std::string once = serialize_model(model);
    Model again = read_model_bytes(once);
    if (serialize_model(again) != once) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
