// Quantisation of a whole tensor to uint8 by its range, as ONNX's DynamicQuantizeLinear defines it. Of nothing but
// zeros the scale is 1, as in ONNX Runtime: the standard's formula gives 0 there, and 0/0 for the elements.
#pragma once

#include <cstdint>

namespace attune {

struct DynamicQuantization {
  float scale = 1;
  uint8_t zero_point = 0;
};

DynamicQuantization dynamic_quantize(const float* x, int64_t count, uint8_t* y);

}  // namespace attune
