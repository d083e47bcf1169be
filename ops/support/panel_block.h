// What the kernels of panel_multiply.cpp are given; the same for all instruction sets.
#pragma once

#include "ops/support/panel_weights.h"

namespace attune {

struct PanelBlock {
  const PanelWeights* w;
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  const Epilogue* epilogue;
  int64_t row = 0;  // the first
};

}  // namespace attune
