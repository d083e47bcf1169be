#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/command.h"
#include "cli/inputs_stay.h"
#include "graph/io/npy.h"
#include "graph/io/output_file.h"
#include "graph/io/reader.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "runtime/test_data.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string model;
  std::string inputs, output;
  std::vector<std::string> named_inputs, test_data;
  std::string profile;  // "-": to standard output
  int threads = 0;
  bool json = false;
};

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

Datum read_input(const fs::path& file, const Plan::Port& port) {
  if (file.extension() == ".npy") return read_npy(file);
  if (file.extension() == ".pb") return read_tensor_file(file, port.type);
  invalid(fmt::format("{}: expected a .npy or .pb file", file.string()));
}

const Plan::Port& find_port(const Plan& plan, std::string_view name) {
  if (const auto i = plan.find_input(name)) return plan.inputs()[*i];
  std::vector<std::string> names;
  for (const auto& p : plan.inputs()) names.push_back("'" + p.name + "'");
  invalid(fmt::format("the model has no input '{}'; it has {}", name, fmt::join(names, ", ")));
}

TensorMap read_inputs(const Options& options, const Plan& plan) {
  TensorMap inputs;
  if (!options.inputs.empty())
    for (auto& [name, tensor] : read_npz(options.inputs)) {
      find_port(plan, name);
      inputs.insert_or_assign(name, Datum(std::move(tensor)));
    }
  for (const std::string& given : options.named_inputs) {
    const size_t equals = given.find('=');
    if (equals == std::string::npos) invalid(fmt::format("--input {}: expected NAME=FILE", given));
    const Plan::Port& port = find_port(plan, given.substr(0, equals));
    inputs.insert_or_assign(port.name, read_input(given.substr(equals + 1), port));
  }
  return inputs;
}

// Name, type and range of each output.
struct OutputLine {
  std::string name, type;
  double minimum = 0, maximum = 0, mean = 0;
  bool numeric = false;
};

OutputLine describe(const std::string& name, const Datum& value) {
  OutputLine line{name, "", 0, 0, 0, false};
  if (value.kind() == Datum::Kind::kSequence || value.kind() == Datum::Kind::kOptional) {
    line.type = fmt::format("{} of {}", value.kind() == Datum::Kind::kSequence ? "sequence" : "optional",
                            value.elements().size());
    return line;
  }
  const Tensor& t = value.tensor();
  line.type = std::string(attune::name(t.type())) + t.shape().to_string();
  const bool known = t.type() == DataType::kFloat || t.type() == DataType::kDouble || t.type() == DataType::kFloat16 ||
                     t.type() == DataType::kBFloat16 || t.type() == DataType::kBool ||
                     (is_integer(t.type()) && element_bits(t.type()) >= 8);
  if (!known || t.count() == 0) return line;
  const std::vector<double> values = t.to_double();
  line.numeric = true;
  line.minimum = line.maximum = values[0];
  for (const double v : values) {
    line.minimum = std::min(line.minimum, v);
    line.maximum = std::max(line.maximum, v);
    line.mean += v / static_cast<double>(values.size());
  }
  return line;
}

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

// `profile`: null if none was asked for.
void print_outputs(const TensorMap& outputs, double milliseconds, bool as_json, const Profile* profile) {
  json list = json::array();
  for (const auto& [name, value] : outputs) {
    const OutputLine line = describe(name, value);
    if (as_json) {
      json entry = {{"name", line.name}, {"type", line.type}};
      if (line.numeric)
        entry.update({{"min", number(line.minimum)}, {"max", number(line.maximum)}, {"mean", number(line.mean)}});
      list.push_back(std::move(entry));
    } else if (line.numeric) {
      print_line(fmt::format("{}  {}  min {:.6g}  max {:.6g}  mean {:.6g}", line.name, line.type, line.minimum,
                             line.maximum, line.mean));
    } else {
      print_line(fmt::format("{}  {}", line.name, line.type));
    }
  }
  if (as_json) {
    json result{{"outputs", list}, {"milliseconds", milliseconds}};
    if (profile) result["profile"] = profile_json(*profile);
    print_json(result);
  } else {
    print_line(fmt::format("{:.3g} ms", milliseconds));
    if (profile) print(profile->table());
  }
}

void write_outputs(const fs::path& file, const TensorMap& outputs) {
  NamedTensors tensors;
  for (const auto& [name, value] : outputs) {
    if (value.kind() != Datum::Kind::kTensor)
      throw Error(Error::Kind::kUnsupported,
                  fmt::format("output '{}' isn't a tensor: a .npz file can't hold it", name));
    tensors.emplace(name, value.tensor());
  }
  write_npz(file, tensors);
}

void check_inputs_stay(const Options& options) {
  std::vector<fs::path> inputs{options.model, options.inputs};
  for (const std::string& given : options.named_inputs) inputs.emplace_back(given.substr(given.find('=') + 1));
  InputFiles files(std::move(inputs));
  files.check_replaced_by("--output", options.output);
  files.check_replaced_by("--profile", options.profile);
}

int run_once(const Options& options) {
  const bool profiled = !options.profile.empty(), traced = profiled && options.profile != "-";
  check_inputs_stay(options);
  if (!options.output.empty()) check_writable(options.output);
  if (traced) check_writable(options.profile);
  const fs::path file = options.model;
  const auto plan = Plan::load(file);
  Profile profile;
  SessionOptions session_options;
  session_options.threads = options.threads;
  if (profiled) session_options.profile = &profile;
  Session session(plan, session_options);
  TensorMap inputs = read_inputs(options, *plan);
  const auto start = std::chrono::steady_clock::now();
  const TensorMap outputs = within(file.string(), [&] { return session.run(std::move(inputs)); });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (!options.output.empty()) write_outputs(options.output, outputs);
  print_outputs(outputs, took.count(), options.json, profiled ? &profile : nullptr);
  if (traced) write_file(options.profile, profile.chrome_trace());
  return kSuccess;
}

// One folder of test data: what came of it.
struct Outcome {
  std::string folder;
  std::vector<OutputComparison> outputs;
  std::string error;
  bool passed() const {
    return error.empty() &&
           std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.comparison.equal(); });
  }
  std::string reason() const {
    if (!error.empty()) return error;
    for (const auto& o : outputs)
      if (!o.comparison.equal())
        return fmt::format("{} > output '{}': {}", o.data_set, o.output, o.comparison.difference);
    return {};
  }
};

Outcome run_folder(const Options& options, const std::string& folder) {
  Outcome outcome{folder, {}, {}};
  try {
    const fs::path file = options.model.empty() ? fs::path(folder) / "model.onnx" : fs::path(options.model);
    SessionOptions session_options;
    session_options.threads = options.threads;
    outcome.outputs = run_test_data(read_model(file), folder, session_options);
  } catch (const Error& e) {
    outcome.error = e.what();
  }
  return outcome;
}

void print_outcome(const Outcome& outcome) {
  double largest = 0;
  for (const auto& o : outcome.outputs) largest = std::max(largest, o.comparison.largest_absolute);
  if (outcome.passed()) {
    print_line(fmt::format("passed  {}  largest difference {:.3g}", outcome.folder, largest));
  } else {
    print_line(fmt::format("FAILED  {}  {}", outcome.folder, outcome.reason()));
  }
}

int run_folders(const Options& options) {
  Progress progress("running test data");
  size_t failed = 0, errors = 0;
  json list = json::array();
  for (size_t i = 0; i < options.test_data.size(); ++i) {
    progress.update(i, options.test_data.size(), options.test_data[i]);
    const Outcome outcome = run_folder(options, options.test_data[i]);
    if (!outcome.passed()) ++failed;
    if (!outcome.error.empty()) ++errors;
    if (!options.json) {
      print_outcome(outcome);
    } else {
      list.push_back({{"folder", outcome.folder}, {"passed", outcome.passed()}, {"reason", outcome.reason()}});
    }
  }
  const size_t passed = options.test_data.size() - failed;
  if (options.json) {
    print_json({{"results", list}, {"passed", passed}, {"failed", failed}});
  } else {
    print_line(fmt::format("{} passed, {} failed", passed, failed));
  }
  return errors > 0 ? kError : failed > 0 ? kDifference : kSuccess;
}

int run(const Options& options) {
  if (!options.output.empty() && options.output == options.profile)
    invalid(fmt::format("--output and --profile name one file: {}", options.output));
  if (options.test_data.empty()) {
    if (options.model.empty()) invalid("expected a MODEL, or --test-data");
    return run_once(options);
  }
  if (!options.inputs.empty() || !options.named_inputs.empty() || !options.output.empty() || !options.profile.empty())
    invalid("--test-data brings its own inputs: it can't be combined with --inputs, --input, --output or --profile");
  return run_folders(options);
}

}  // namespace

Action add_run(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  command.add_option("MODEL", options->model, "an ONNX file; with --test-data the default is DIR/model.onnx");
  command.add_option("--inputs", options->inputs, "a .npz file with arrays named as the inputs");
  command.add_option("--input", options->named_inputs, "NAME=FILE, a .npy or .pb file; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--output", options->output, "write the outputs to this .npz file");
  command.add_option("--test-data", options->test_data,
                     "folders in ONNX's test layout: run on test_data_set_*/input_*.pb, compare with output_*.pb");
  command
      .add_option("--profile", options->profile,
                  "print where the time went; with a file, write a Chrome trace there too")
      ->expected(0, 1)
      ->default_str("-");
  add_threads(command, options->threads);
  command.add_flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace attune::cli
