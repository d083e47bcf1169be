// The frame of the attune program: how a subcommand is added, exit codes, output.
//
// A command is one file cli/NAME.cpp that defines add_NAME(), and a line in main.cpp's table.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/exit_code.h"
#include "runtime/profile.h"

namespace attune::cli {

// What a command does once its options are parsed; gives the exit code. Throws attune::Error, which the program
// prints as one line on standard error before it exits with 2.
using Action = std::function<int()>;

struct Command {
  std::string_view name;
  std::string_view description;
  Action (*add)(CLI::App& command);  // declares the options; they live in the Action
};

Action add_bench(CLI::App& command);
Action add_convert(CLI::App& command);
Action add_diagnose(CLI::App& command);
Action add_generate(CLI::App& command);
Action add_inspect(CLI::App& command);
Action add_run(CLI::App& command);

// Standard output. print_json ends with a newline and replaces what isn't UTF-8.
void print(std::string_view text);
void print_line(std::string_view text);
// Has what was printed written. Throws Error(kIo) where it can't be.
void flush();
void print_json(const nlohmann::json& json);
// Keys in the order in which they were set.
void print_ordered_json(const nlohmann::ordered_json& json);

// Of standard output. Without a terminal: no colour, 200 columns.
bool terminal_has_colour();
size_t terminal_width();

// Of an option's number.
CLI::Validator at_least(double least);
// Sources that are generated together, at most.
constexpr size_t kMostTogether = 65536;
// --threads N.
void add_threads(CLI::App& command, int& threads);

// The nodes of a profile, with the most time first.
nlohmann::json profile_json(const Profile& profile);

// The file's name, with a number for sources after the first: "x.svg", "x-2.svg" ...
std::string numbered_file(const std::string& file, size_t index);

// "1.5 MB": powers of 1000.
std::string bytes_text(double bytes);

// Shows on a terminal's standard error how far a long job is; nothing before a second has passed, nothing elsewhere.
class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line
  // `total` 0: unknown.
  void update(size_t done, size_t total, std::string_view detail = {});
  // "lines, 12.3 lines/s, 1 min 5 s left" after `done` units, which are this part of all (0: unknown).
  std::string pace(std::string_view unit, double done, double part) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  Clock::time_point start_, shown_;
  bool terminal_;
  bool visible_ = false;
};

}  // namespace attune::cli
