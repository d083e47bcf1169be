#include "cli/early_exit.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "cli/exit_code.h"
#include "graph/io/unfinished.h"

namespace attune::cli {
namespace {

std::atomic<bool> early = false;

void on_exit() {
  if (!early) return;
  remove_unfinished();
  ::_exit(kError);
}

}  // namespace

EarlyExit::EarlyExit() {
  early = true;
  std::atexit(on_exit);
}

EarlyExit::~EarlyExit() { early = false; }

}  // namespace attune::cli
