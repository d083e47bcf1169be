// What is wrong with a JSON document, in words for the user.
#pragma once

#include <exception>
#include <string>

namespace attune {

// The message of an exception of nlohmann::json without its library's mark, "[json.exception.type_error.302] ".
inline std::string json_fault(const std::exception& e) {
  const std::string message = e.what();
  const size_t end = message.starts_with("[json.exception.") ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

}  // namespace attune
