// JSON documents beside models.
#pragma once

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

// The document in a file; nothing if there is no such file. Throws Error(kInvalidArgument) that names the file and
// where in it the fault is; Error(kIo) where it can't be read.
std::optional<nlohmann::json> read_json(const std::filesystem::path& file);

// The same, of a file that holds an object.
std::optional<nlohmann::json> read_json_object(const std::filesystem::path& file);

// A document, which may hold NaN, Infinity and -Infinity: Python writes such numbers so. Throws nlohmann's exceptions.
nlohmann::json parse_json(std::string_view text);

// The message of an exception of nlohmann::json without its library's mark, "[json.exception.type_error.302] ".
std::string json_fault(const std::exception& e);

}  // namespace attune
