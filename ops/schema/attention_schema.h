// The schema of ai.attune::Attention, without its function body.
#pragma once

#include <onnx/defs/schema.h>

namespace attune {

onnx::OpSchema attention_schema();

}  // namespace attune
