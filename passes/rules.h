// The fusion rules, one to a file, fuse_NAME.cpp; the passes apply them, and the report explains anchors by them.
#pragma once

#include "passes/pattern/rule.h"

namespace attune::rules {

pattern::Rule attention();
pattern::Rule additive_attention();
pattern::Rule attention_heads();

}  // namespace attune::rules
