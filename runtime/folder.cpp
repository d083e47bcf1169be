#include "runtime/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <vector>

#include "graph/error.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

bool contains(const fs::path& file, std::string_view part) {
  return file.stem().string().find(part) != std::string::npos;
}

// The files of a role; the shortest name first, so that decoder_model goes before decoder_model_quantized.
std::vector<fs::path> matching(const std::vector<fs::path>& files, const auto& test) {
  std::vector<fs::path> found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found), test);
  std::stable_sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return a.filename().string().size() < b.filename().string().size();
  });
  return found;
}

fs::path first(const std::vector<fs::path>& files) { return files.empty() ? fs::path() : files.front(); }

}  // namespace

ModelFiles find_model_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  if (error) throw Error(Error::Kind::kIo, fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(files.begin(), files.end());

  ModelFiles out;
  out.encoder =
      first(matching(files, [](const fs::path& f) { return contains(f, "encoder") && !contains(f, "decoder"); }));
  const auto decoders = matching(files, [](const fs::path& f) { return contains(f, "decoder"); });
  const auto with_past = matching(decoders, [](const fs::path& f) { return contains(f, "with_past"); });
  const auto merged = matching(decoders, [](const fs::path& f) { return contains(f, "merged"); });
  const auto plain =
      matching(decoders, [](const fs::path& f) { return !contains(f, "with_past") && !contains(f, "merged"); });
  if (!plain.empty() && !with_past.empty()) {
    out.decoder = plain.front();
    out.decoder_with_past = with_past.front();
  } else if (!merged.empty()) {
    out.decoder = merged.front();
  } else {
    out.decoder = !plain.empty() ? plain.front() : first(with_past);
  }
  if (files.size() == 1 && out.decoder.empty() && out.encoder.empty()) out.whole = files.front();
  if (out.whole.empty() && (out.encoder.empty() || out.decoder.empty())) {
    std::string list;
    for (const auto& f : files) list += " " + f.filename().string();
    throw Error(Error::Kind::kIo, fmt::format("{}: expected an encoder and a decoder, or one model, found{}",
                                              folder.string(), list.empty() ? " no .onnx file" : list));
  }
  return out;
}

std::optional<std::string> read_bytes(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  const auto fail = [&](std::string_view what) {
    throw Error(Error::Kind::kIo, fmt::format("{}: {}", file.string(), what));
  };
  if (fs::is_directory(status)) fail("expected a file, found a directory");
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("can't be opened");
  std::string bytes;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()), in.gcount() > 0)
    bytes.append(part.data(), static_cast<size_t>(in.gcount()));
  if (in.bad()) fail("can't be read");
  return bytes;
}

fs::path configuration_file(const fs::path& folder, const std::string& name) {
  return fs::exists(folder / name) ? folder / name : folder / ".." / name;
}

}  // namespace attune
