#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/early_exit.h"
#include "cli/lost_file.h"
#include "cli/stop_signals.h"
#include "graph/error.h"

namespace attune::cli {
namespace {

constexpr std::array kCommands = {
    Command{"bench", "Time a model folder: encoding, and each step of decoding", add_bench},
    Command{"convert", "Fuse the attention of a model or folder, verify the result, and write it", add_convert},
    Command{"diagnose", "What the heads of a model do on real inputs, and what attention costs", add_diagnose},
    Command{"generate", "Generate from a model folder, as Hugging Face's generate()", add_generate},
    Command{"inspect", "What is in a model: inputs, outputs, operators, attentions, sizes", add_inspect},
    Command{"run", "Run a model on given inputs, or on test data", add_run},
};

// One line, whatever the message holds.
int report(std::string message) {
  for (char& c : message)
    if (c == '\n' || c == '\r') c = ' ';
  while (!message.empty() && message.back() == ' ') message.pop_back();
  std::fputs(("attune: " + message + "\n").c_str(), stderr);  // if it can't be written, nobody reads it
  return kError;
}

// Descriptors 0 to 2 that the caller closed are taken, so that no file that is opened becomes one of them and gets
// what is printed. They stay unusable: the other direction is opened.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// "attune help" and "attune help COMMAND" are "attune --help" and "attune COMMAND --help".
std::vector<const char*> arguments_of(int argc, char** argv) {
  std::vector<const char*> out(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return out;
  out.erase(out.begin() + 1);
  out.push_back("--help");
  return out;
}

int run(int argc, char** argv) {
  const auto arguments = arguments_of(argc, argv);
  CLI::App app("An attention compiler and runtime for ONNX encoder-decoder models", "attune");
  app.set_version_flag("--version", ATTUNE_VERSION);
  app.require_subcommand(1);
  std::array<Action, kCommands.size()> actions;
  std::array<CLI::App*, kCommands.size()> subcommands;
  for (size_t i = 0; i < kCommands.size(); ++i) {
    subcommands[i] = app.add_subcommand(std::string(kCommands[i].name), std::string(kCommands[i].description));
    actions[i] = kCommands[i].add(*subcommands[i]);
  }
  if (arguments.size() < 2) return report("expected a command; attune --help lists them");
  const std::string_view first = arguments[1];
  const bool known = std::any_of(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.name == first; });
  if (!first.starts_with('-') && !known)
    return report(fmt::format("unknown command '{}'; attune --help lists them", first));
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return report(e.what());
    app.exit(e);  // --help, --version
    if (!std::cout.flush()) throw Error(Error::Kind::kIo, "can't write to standard output");
    return kSuccess;
  }
  for (size_t i = 0; i < kCommands.size(); ++i)
    if (subcommands[i]->parsed()) {
      const int code = actions[i]();
      flush();
      return code;
    }
  return kError;
}

}  // namespace
}  // namespace attune::cli

int main(int argc, char** argv) {
  attune::cli::reserve_standard_streams();
  attune::cli::report_lost_files();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of sizes is an error of the write
  try {
    const attune::cli::EarlyExit early;
    attune::cli::clean_up_on_stop_signals();
    return attune::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return attune::cli::report("out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return attune::cli::report(fmt::format("{}: {}", e.path1().string(), e.code().message()));
  } catch (const std::exception& e) {
    return attune::cli::report(e.what());
  }
}
