// Any bytes as a .npy and as a .npz file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const attune::Tensor t = attune::parse_npy(bytes);
    if (t.type() != attune::DataType::kString) {
      const attune::Tensor again = attune::parse_npy(attune::serialize_npy(t));
      if (again.type() != t.type() || !(again.shape() == t.shape())) std::abort();
    }
  } catch (const attune::Error&) {
  }
  try {
    attune::parse_npz(bytes);
  } catch (const attune::Error&) {
  }
  return 0;
}
