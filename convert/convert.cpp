#include "convert/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/io/reader.h"
#include "graph/io/writer.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(Error::Kind kind, const fs::path& path, std::string_view what) {
  throw Error(kind, fmt::format("{}: {}", path.string(), what));
}

// std::filesystem calls, with their failures as Error(kIo).
template <class F>
decltype(auto) io(const fs::path& path, F&& f) {
  try {
    return f();
  } catch (const fs::filesystem_error& e) {
    fail(Error::Kind::kIo, path, e.code().message());
  }
}

// A folder beside the output that goes, with all in it, unless it was renamed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& beside) : path_(beside.string() + fmt::format(".partial-{}", getpid())) {
    io(path_, [&] { fs::create_directories(path_); });
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A copy in the form of `target`.
Model with_target(const Model& model, Target target) {
  Model copy = model;
  copy.graph = model.graph->clone();
  apply_target(copy, target);
  return copy;
}

ConvertedModel convert_model(const fs::path& source, const fs::path& result, const fs::path& written,
                             const ConvertOptions& options) {
  return within(
      [&] { return source.string(); },
      [&] {
        ConvertedModel c{source, result, {}, 0, {}, std::nullopt, std::nullopt};
        Model model = read_model(source);
        read_portable(model);
        optimize(model, c.report, options.passes);
        model.graph->for_each_node([&](const Node& n) { c.attentions += n.is("Attention", "ai.attune") ? 1 : 0; });
        const bool rounds = options.weights.type != WeightsType::kUnchanged;
        const Model original = options.verify ? read_model(source) : Model();
        if (rounds && options.verify)
          c.verification = verify(original, with_target(model, options.target), options.verification);
        c.stored = store_weights(model, options.weights);
        apply_target(model, options.target);
        write_model(model, written);
        if (options.verify) {
          VerifyOptions how = options.verification;
          if (rounds) how.tolerance = rounding_tolerance(options.weights.type);
          (rounds ? c.rounded : c.verification) = verify(original, read_model(written), how);
        }
        return c;
      });
}

bool inside(const fs::path& path, const fs::path& folder) {
  const fs::path p = fs::weakly_canonical(path), f = fs::weakly_canonical(folder);
  return std::mismatch(f.begin(), f.end(), p.begin(), p.end()).first == f.end();
}

// Moves what is in `from` to `to`: at once if `to` isn't there, file by file otherwise.
void move_contents(const fs::path& from, const fs::path& to) {
  io(to, [&] {
    if (!fs::exists(to)) return fs::rename(from, to);
    for (const auto& entry : fs::directory_iterator(from)) fs::rename(entry.path(), to / entry.path().filename());
  });
}

Conversion convert_file(const fs::path& source, const fs::path& output, const ConvertOptions& options,
                        const std::function<void(const fs::path&)>& started) {
  if (io(output, [&] { return fs::is_directory(output); }))
    fail(Error::Kind::kInvalidArgument, output, "is a folder; a model needs a file name");
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!io(folder, [&] { return fs::is_directory(folder); })) fail(Error::Kind::kIo, folder, "is not a folder");
  const TemporaryFolder temporary(output);
  if (started) started(source);
  Conversion c;
  c.models.push_back(convert_model(source, output, temporary.path() / output.filename(), options));
  if (!c.models.back().passed()) return c;
  move_contents(temporary.path(), folder);
  c.written = true;
  return c;
}

Conversion convert_folder(const fs::path& source, const fs::path& output, const ConvertOptions& options,
                          const std::function<void(const fs::path&)>& started) {
  if (inside(output, source)) fail(Error::Kind::kInvalidArgument, output, "lies in the source folder");
  std::vector<fs::path> models, others;
  io(source, [&] {
    for (const auto& entry : fs::directory_iterator(source)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file()) continue;
      if (extension == ".onnx") {
        models.push_back(entry.path());
      } else if (extension != ".onnx_data" && extension != ".data") {
        others.push_back(entry.path());
      }
    }
  });
  if (models.empty()) fail(Error::Kind::kInvalidArgument, source, "has no .onnx file");
  std::sort(models.begin(), models.end());
  std::sort(others.begin(), others.end());

  const TemporaryFolder temporary(output);
  Conversion c;
  bool passed = true;
  for (const fs::path& model : models) {
    if (started) started(model);
    c.models.push_back(convert_model(model, output / model.filename(), temporary.path() / model.filename(), options));
    passed = passed && c.models.back().passed();
  }
  if (!passed) return c;
  for (const fs::path& other : others) {
    io(other, [&] { fs::copy_file(other, temporary.path() / other.filename()); });
    c.copied.push_back(output / other.filename());
  }
  move_contents(temporary.path(), output);
  c.written = true;
  return c;
}

}  // namespace

void fuse(Model& model) {
  read_portable(model);
  bool fused = false;
  model.graph->for_each_node([&](const Node& n) { fused = fused || n.is("Attention", "ai.attune"); });
  Report report;
  if (!fused) optimize(model, report);
}

Conversion convert(const fs::path& source, const fs::path& output, const ConvertOptions& options,
                   const std::function<void(const fs::path&)>& started) {
  if (!io(source, [&] { return fs::exists(source); }))
    fail(Error::Kind::kIo, source, "there is no such file or folder");
  return io(source, [&] { return fs::is_directory(source); }) ? convert_folder(source, output, options, started)
                                                              : convert_file(source, output, options, started);
}

}  // namespace attune
