#include "runtime/json_file.h"

#include <fmt/format.h>

#include "graph/error.h"
#include "runtime/folder.h"

namespace attune {

using nlohmann::json;

std::string json_fault(const std::exception& e) {
  const std::string message = e.what();
  const size_t end = message.starts_with("[json.exception.") ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

std::optional<json> read_json(const std::filesystem::path& file) {
  const auto text = read_bytes(file);
  if (!text) return std::nullopt;
  try {
    return json::parse(*text);
  } catch (const json::exception& e) {
    throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: not valid JSON: {}", file.string(), json_fault(e)));
  }
}

std::optional<json> read_json_object(const std::filesystem::path& file) {
  auto parsed = read_json(file);
  if (parsed && !parsed->is_object())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: expected a JSON object, found {}", file.string(), parsed->type_name()));
  return parsed;
}

}  // namespace attune
