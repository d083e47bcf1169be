#include "cli/command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace attune::cli {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw Error(Error::Kind::kIo, "can't write to standard output");
}

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

void flush() {
  if (std::fflush(stdout) != 0) throw Error(Error::Kind::kIo, "can't write to standard output");
}

void print_json(const nlohmann::json& json) {
  print_line(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_ordered_json(const nlohmann::ordered_json& json) {
  print_line(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

bool terminal_has_colour() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

size_t terminal_width() {
  winsize size{};
  constexpr size_t kElsewhere = 200;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kElsewhere;
}

CLI::Validator at_least(double least) {
  const auto check = [least](const std::string& text) {
    double value = 0;
    // What isn't a number is reported where it is read.
    if (!CLI::detail::lexical_cast(text, value) || value >= least) return std::string();
    return fmt::format("expected at least {}, got {}", least, text);
  };
  return CLI::Validator(check, "", "at_least");
}

void add_threads(CLI::App& command, int& threads) {
  constexpr int kMost = 1024;
  command.add_option("--threads", threads, "Threads; 0 (default): the physical cores")->check(CLI::Range(0, kMost));
}

nlohmann::json profile_json(const Profile& profile) {
  nlohmann::json out = nlohmann::json::array();
  for (const ProfileRow& r : profile.rows())
    out.push_back({{"node", r.label},
                   {"implementation", r.implementation},
                   {"calls", r.calls},
                   {"microseconds", r.microseconds},
                   {"bytes", r.bytes},
                   {"flops", r.flops}});
  return out;
}

std::string numbered_file(const std::string& file, size_t index) {
  std::filesystem::path numbered = file;
  if (index > 0)
    numbered.replace_filename(
        fmt::format("{}-{}{}", numbered.stem().string(), index + 1, numbered.extension().string()));
  return numbered.string();
}

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  bytes /= 1000;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

Progress::Progress(std::string what)
    : what_(std::move(what)), start_(Clock::now()), shown_(start_), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);  // fmt::print throws where it can't be written
}

std::string Progress::pace(std::string_view unit, double done, double part) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string out = fmt::format("{0}, {1:.1f} {0}/s", unit, done / std::max(seconds, 1e-3));
  if (part <= 0) return out;
  const int64_t left = std::llround(seconds * (1 - part) / part);
  return out +
         (left >= 60 ? fmt::format(", {} min {} s left", left / 60, left % 60) : fmt::format(", {} s left", left));
}

void Progress::update(size_t done, size_t total, std::string_view detail) {
  const auto now = Clock::now();
  if (!terminal_ || now - start_ < std::chrono::seconds(1)) return;
  if (visible_ && now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  visible_ = true;
  const std::string count = total > 0 ? fmt::format("{} of {}", done, total) : fmt::format("{}", done);
  std::fputs(fmt::format("\r{}: {} {}\033[K", what_, count, detail.substr(0, 60)).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace attune::cli
