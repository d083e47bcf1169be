// What a model of coarse numbers stands for.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// A copy of `model` that computes in float32 what `model` computes in float16, bfloat16 or dynamically quantised:
// halves become float, DynamicQuantizeLinear gives its input, and the integer products become products of the numbers
// that the integers stand for. Nothing if the model quantises in other ways.
std::optional<Model> float_reference(const Model& model);

// float16 and bfloat16 as float; others as they are.
Tensor widened(const Tensor& t);

}  // namespace attune
