#include "cli/lost_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "cli/exit_code.h"

namespace attune::cli {
namespace {

// In a signal handler only async-signal-safe functions may be called (signal-safety(7)): nothing allocates here.

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

uintptr_t take_hexadecimal(std::string_view& text) {
  uintptr_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) break;
    value = value * 16 + static_cast<uintptr_t>(digit ? c - '0' : c - 'a' + 10);
    text.remove_prefix(1);
  }
  return value;
}

// Whether a line of /proc/self/maps, "begin-end rights offset device inode path" (proc(5)), holds the address.
bool holds(std::string_view line, uintptr_t address) {
  const uintptr_t begin = take_hexadecimal(line);
  if (!line.empty()) line.remove_prefix(1);
  return address >= begin && address < take_hexadecimal(line);
}

// The file mapped at an address, in `buffer`; empty if it can't be found.
std::string_view mapped_file(uintptr_t address, char* buffer, size_t size) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return {};
  size_t length = 0;
  char c = 0;
  while (::read(maps, &c, 1) == 1) {
    if (c != '\n') {
      if (length < size) buffer[length++] = c;
      continue;
    }
    const std::string_view line(buffer, length);
    length = 0;
    if (!holds(line, address)) continue;
    ::close(maps);
    const size_t path = line.find('/');
    return path == std::string_view::npos ? std::string_view() : line.substr(path);
  }
  ::close(maps);
  return {};
}

void on_bus_error(int, siginfo_t* info, void*) {
  char buffer[4096];
  const std::string_view file = mapped_file(reinterpret_cast<uintptr_t>(info->si_addr), buffer, sizeof(buffer));
  write_all("attune: ");
  write_all(file.empty() ? "a file" : file);
  write_all(": it was shortened, or its device failed, while it was being read\n");
  ::_exit(kError);
}

}  // namespace

void report_lost_files() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace attune::cli
