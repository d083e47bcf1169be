#pragma once

namespace attune::cli {

// SIGINT, SIGTERM and SIGHUP remove what is unfinished before they end the process as they would. To be called before
// other threads are started. Throws Error(kLimit) where no thread can be.
void clean_up_on_stop_signals();

}  // namespace attune::cli
