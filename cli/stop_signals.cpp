#include "cli/stop_signals.h"

#include <fmt/format.h>

#include <csignal>
#include <system_error>
#include <thread>

#include "graph/error.h"
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
  const auto wait = [stops] {
    int signal = 0;
    if (sigwait(&stops, &signal) != 0) return;
    remove_unfinished();
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
    raise(signal);
  };
  try {
    std::thread(wait).detach();
  } catch (const std::system_error& e) {
    throw Error(Error::Kind::kLimit, fmt::format("can't start a thread: {}", e.code().message()));
  }
}

}  // namespace attune::cli
