// Spoils models by random edits, one at a time, and converts them: what comes out must compute what went in, and an
// attention that is not fused any more must be explained. The models are the cases of passes (.txt) and ONNX files.
//   attune_spoil [--edits N] [--seconds S] [--first N] [--keep FOLDER] FILE_OR_FOLDER...
// Edit number N of a file is the same every time, whatever else runs. Exit status 1 if a conversion is wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "convert/verify.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "ops/infer/infer.h"
#include "ops/op.h"
#include "passes/attention_node.h"
#include "passes/pass.h"
#include "runtime/plan.h"
#include "tests/spoil/edits.h"
#include "tests/support/pass_cases.h"

namespace attune::test {
namespace {

struct Options {
  size_t first = 0, edits = 10;
  double seconds = 1e9;
  fs::path keep;
  std::vector<std::string> paths;
};

struct Counts {
  size_t inapplicable = 0, invalid = 0, same = 0, refused = 0, unstable = 0, wrong = 0, silent = 0;
};

struct Fusions {
  size_t attentions = 0, projections = 0, softmaxes = 0;
};

Fusions fusions_of(const Model& model) {
  Fusions f;
  model.graph->for_each_node([&](const Node& n) {
    f.softmaxes += n.is("Softmax") ? 1 : 0;
    if (!is_attention(n)) return;
    ++f.attentions;
    for (const size_t weight : {kAttentionQueryWeight, kAttentionKeyWeight, kAttentionValueWeight})
      f.projections += n.input(weight) ? 1 : 0;
  });
  return f;
}

// A way of rewriting a model; gives why something was left.
using Rewriting = std::function<std::vector<NearMiss>(Model&)>;

void expect_end(const Report& report) {
  for (const std::string& rule : report.endless_rules)
    throw Error(Error::Kind::kInternal, "rule " + rule + " matches what it gives");
}

std::vector<NearMiss> convert_whole(Model& model) {
  Report report;
  optimize(model, report);
  expect_end(report);
  return report.near_misses;
}

Rewriting by_pass(const std::string& name) {
  return [name](Model& model) {
    Report report;
    const PassOptions options;
    std::vector<NearMiss> misses;
    PassContext context{model, report, options, &misses};
    run_pass(name, context);
    expect_end(report);
    model.opset_imports.try_emplace("ai.attune", 1);
    model.graph->sort();
    return misses;
  };
}

// Nothing if the source can't run at all.
std::optional<Verification> compared(const Model& source, const Model& result) {
  VerifyOptions options;
  options.threads = 1;
  options.search_seconds = 0.2;
  Verification v = verify(source, result, options);
  if (v.compared == 0) return std::nullopt;
  return v;
}

// Whether each run gives other numbers.
bool is_random(const Model& model) {
  bool random = false;
  model.graph->for_each_node([&](const Node& n) {
    const OpDef* op = find_op(n.domain(), n.type(), model.opset(n.domain()));
    random = random || (op && !op->deterministic);
  });
  return random;
}

bool runs(const Model& model) {
  try {
    return compared(model, model).has_value();
  } catch (const Error&) {
    return false;
  }
}

// Whether rounding alone explains so large a difference.
bool is_unstable(const Model& source, double difference, uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 3; ++i) {
    Model other = copy_of(source);
    disturb(other, random);
    const auto v = compared(source, other);
    if (v && !(v->largest_relative * 20 < difference)) return true;
  }
  return false;
}

uint64_t seed_of(const std::string& name, size_t n) {
  uint64_t h = 1469598103934665603ULL;  // FNV-1a
  for (const char c : name + "#" + std::to_string(n)) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  return h;
}

class File {
 public:
  File(const fs::path& path, const Options& options) : path_(path), options_(options) {
    name_ = fs::path(path.parent_path().parent_path().filename() / path.parent_path().filename() / path.filename())
                .string();
    if (path.extension() == ".txt") {
      const Case c = read_case(path);
      model_ = parse_model(c.before);
      rewritings_.push_back(by_pass(c.pass));
    } else {
      model_ = read_model(path);
    }
    rewritings_.push_back(convert_whole);
    Random random(seed_of(name_, 0));
    tell_elements_apart(model_, random);
    Model whole = copy_of(model_);
    convert_whole(whole);
    usual_ = fusions_of(whole);
  }

  // Which float16 filler absorbs scores is told by the Add of an export; an Attention that is there already adds
  // floats.
  bool is_judged() const {
    return (default_tolerance(model_) < 1e-2 || fusions_of(model_).attentions == 0) && !is_random(model_);
  }

  // The first edits only take declarations away.
  void run(size_t n, Counts& counts) const {
    Random random(seed_of(name_, n));
    Model source = copy_of(model_);
    Attempt attempt{n, "", n < std::size(kLoosened)};
    if (!attempt.loosened) {
      const Inference inference(source);  // edits look at types
      attempt.what = spoil(source, random);
      if (attempt.what.empty()) {
        ++counts.inapplicable;
        return;
      }
    }
    Model declared = copy_of(source);
    if (attempt.loosened) {
      attempt.what = loosen_declarations(declared, kLoosened[n], true, random);
    } else if (random.one_in(4)) {
      attempt.loosened = true;
      const Loosened how = kLoosened[random.below(std::size(kLoosened))];
      attempt.what += ", " + loosen_declarations(declared, how, random.one_in(2), random);
    }
    try {
      Plan::compile(source);
    } catch (const Error&) {
      ++counts.invalid;
      return;
    }
    for (const Rewriting& rewrite : rewritings_) judge(source, copy_of(declared), rewrite, attempt, counts);
  }

 private:
  struct Attempt {
    size_t number;
    std::string what;
    bool loosened;  // the converter knows less of the shapes than the source says
  };

  // Where sizes aren't known, a conversion may rely on there being no broadcasting, as long as it says so at run time.
  void judge(const Model& source, Model result, const Rewriting& rewrite, const Attempt& attempt,
             Counts& counts) const {
    bool rewritten = false;
    try {
      const auto misses = rewrite(result);
      result.graph->verify();
      rewritten = true;
      const auto v = compared(source, result);
      if (!v) {
        ++counts.invalid;
      } else if (v->passed()) {
        ++counts.same;
        judge_explanation(fusions_of(result), misses, attempt, counts);
      } else if (is_unstable(source, v->largest_relative, seed_of(name_, attempt.number))) {
        ++counts.unstable;
      } else {
        ++counts.wrong;
        report(source, attempt, fmt::format("WRONG by {:.2g}", v->largest_relative));
      }
    } catch (const Error& e) {
      if (!runs(source)) {
        ++counts.invalid;
        return;
      }
      if (rewritten && attempt.loosened) {
        ++counts.refused;
        return;
      }
      ++counts.wrong;
      report(source, attempt, fmt::format("FAILED: {}", e.what()));
    }
  }

  void judge_explanation(const Fusions& found, const std::vector<NearMiss>& misses, const Attempt& attempt,
                         Counts& counts) const {
    if (found.attentions >= usual_.attentions || found.softmaxes <= usual_.softmaxes || !misses.empty()) return;
    ++counts.silent;
    report(model_, attempt, "NOT EXPLAINED");
  }

  void report(const Model& source, const Attempt& attempt, const std::string& fault) const {
    fmt::print("{} --first {}: {}: {}\n", path_.string(), attempt.number, attempt.what, fault);
    std::fflush(stdout);
    if (options_.keep.empty()) return;
    Model copy = copy_of(source);
    copy.graph->assign_names();
    write_model(copy, options_.keep / fmt::format("{:016x}.onnx", seed_of(name_, attempt.number)));
  }

  fs::path path_;
  std::string name_;
  const Options& options_;
  Model model_;
  Fusions usual_;
  std::vector<Rewriting> rewritings_;
};

bool is_model(const fs::path& file) {
  return file.extension() == ".onnx" || (file.extension() == ".txt" && !read_case(file).before.empty());
}

std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const fs::path path : paths) {
    if (!fs::is_directory(path)) files.push_back(path);
    if (fs::is_directory(path))
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file() && is_model(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > options.seconds;
  };
  std::vector<File> files;
  for (const fs::path& path : files_of(options.paths)) {
    File file(path, options);
    if (file.is_judged()) files.push_back(std::move(file));
  }
  Counts counts;
  for (size_t n = options.first; n < options.first + options.edits && !spent(); ++n)
    for (const File& file : files)
      if (!spent()) file.run(n, counts);
  fmt::print(
      "{} models: {} conversions compute the same, {} wrong, {} attentions not explained; "
      "not judged: {} that don't run, {} whose sizes aren't known refused at run time, {} unstable, {} edits that "
      "don't "
      "apply\n",
      files.size(), counts.same, counts.wrong, counts.silent, counts.invalid, counts.refused, counts.unstable,
      counts.inapplicable);
  return counts.wrong + counts.silent > 0 || counts.same == 0 ? 1 : 0;
}

}  // namespace
}  // namespace attune::test

int main(int argc, char** argv) {
  attune::test::Options options;
  CLI::App app("Spoils models, converts them, and compares what they compute.");
  app.add_option("paths", options.paths)->required();
  app.add_option("--edits", options.edits, "of each model");
  app.add_option("--first", options.first, "number of the first edit");
  app.add_option("--seconds", options.seconds, "stop after so long");
  app.add_option("--keep", options.keep, "a folder for spoiled models that are converted wrong");
  CLI11_PARSE(app, argc, argv);
  try {
    return attune::test::run(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "attune_spoil: {}\n", e.what());
    return 2;
  }
}
