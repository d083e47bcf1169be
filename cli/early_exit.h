#pragma once

namespace attune::cli {

// While this lives, an exit that is not ours (OpenMP's, where no thread can be made; it says so) removes what is
// unfinished, and the code is that of an error.
class EarlyExit {
 public:
  EarlyExit();
  EarlyExit(const EarlyExit&) = delete;
  EarlyExit& operator=(const EarlyExit&) = delete;
  ~EarlyExit();
};

}  // namespace attune::cli
