// Quantisation of a whole tensor to uint8 by its range, as ONNX's DynamicQuantizeLinear defines it.
#pragma once

#include <cstdint>

namespace attune {

struct DynamicQuantization {
  float scale = 0;
  uint8_t zero_point = 0;
};

DynamicQuantization dynamic_quantize(const float* x, int64_t count, uint8_t* y);

}  // namespace attune
