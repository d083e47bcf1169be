// The usual OpDef::prepare.
#pragma once

#include <memory>

#include "ops/kernel.h"

namespace attune {

// Makes a K from its context.
template <class K>
std::unique_ptr<Kernel> prepare(const KernelContext& context) {
  return std::make_unique<K>(context);
}

}  // namespace attune
