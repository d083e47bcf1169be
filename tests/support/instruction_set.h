// Runs everything with less than the machine's best instruction set: ATTUNE_TEST_ISA=AVX2 or SSE4.
#pragma once

#include <hwy/highway.h>

#include <cstdlib>
#include <string_view>

namespace attune::test {

// The target that ATTUNE_TEST_ISA asks for, if this machine has it; 0: none.
inline int64_t wanted_instruction_set() {
  const char* name = std::getenv("ATTUNE_TEST_ISA");
  if (!name) return 0;
  const std::string_view wanted(name);
  const int64_t target = wanted == "AVX2" ? HWY_AVX2 : wanted == "SSE4" ? HWY_SSE4 : 0;
  return target & hwy::SupportedTargets();
}

inline void limit_instruction_set() {
  if (const int64_t target = wanted_instruction_set()) hwy::SetSupportedTargetsForTest(target);
}

}  // namespace attune::test
