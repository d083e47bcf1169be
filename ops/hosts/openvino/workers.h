// OpenVINO's own threads for the parallel work of kernels.
#pragma once

#include "ops/support/parallel.h"

namespace attune::openvino {

// The TBB arena of the calling thread: while a request runs, that of its stream, whose size is the number of threads
// that the request was given.
class ArenaWorkers : public Workers {
 public:
  int count() const override;
  // Until all parts are done, the calling thread takes no other work of its arena.
  void run(int parts, void (*f)(void*, int), void* data) override;
};

}  // namespace attune::openvino
