// Element types narrower than a byte (int4, uint4, int2, float4, float6 ...) in kernels that only move elements.
#pragma once

#include "ops/kernel.h"

namespace attune {

// True for types whose elements share bytes.
bool is_packed(DataType type) noexcept;

// A tensor of a packed type as uint8, a byte an element (its code in the low bits), and back.
Tensor spread_to_bytes(const Tensor& packed, BufferPool* pool);
Tensor pack_bytes(const Tensor& bytes, DataType type, BufferPool* pool);

// If `data`, an input of the call, has a packed type, runs `kernel` on its packed inputs spread to a byte an element
// (uint8), packs the results that are uint8 then, and gives true. False: nothing was done. A kernel that moves elements
// starts with `if (run_in_bytes(*this, call, data)) return;`.
bool run_in_bytes(const Kernel& kernel, KernelCall& call, const Tensor& data);

}  // namespace attune
