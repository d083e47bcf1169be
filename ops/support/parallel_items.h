// Loops over items of several elements each (rows, matrices).
#pragma once

#include "ops/support/parallel.h"

namespace attune {

// Calls f(begin, end) for disjoint parts of [0, n), on several threads if n items of `elements_per_item` elements
// (read, written or computed) are worth it.
template <class F>
void parallel_items(int64_t n, int64_t elements_per_item, F&& f) {
  parallel_for(n, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, elements_per_item)), std::forward<F>(f));
}

}  // namespace attune
