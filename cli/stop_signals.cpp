#include "cli/stop_signals.h"

#include <csignal>
#include <thread>

#include "graph/io/unfinished.h"

namespace attune::cli {

void clean_up_on_stop_signals() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&stops, signal);  // nohup ignores SIGHUP
  }
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::thread([stops] {
    int signal = 0;
    if (sigwait(&stops, &signal) != 0) return;
    remove_unfinished();
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
    raise(signal);
  }).detach();
}

}  // namespace attune::cli
