// Settings of a model's configuration files. Internal to the runtime.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "graph/error.h"

namespace attune {

// What `read` gives; values of other types than it expects are an Error(kInvalidArgument) that names the setting and
// shows `value`.
template <class Read>
decltype(auto) read_setting(const char* name, const nlohmann::json& value, Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const nlohmann::json::exception&) {
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: a value of an unexpected type: {}", name, value.dump()));
  }
}

// The setting of that name, or `fallback` where there is none. Throws as above.
template <class T>
T setting(const nlohmann::json& object, const char* name, T fallback) {
  const auto it = object.find(name);
  if (it == object.end()) return fallback;
  return read_setting(name, *it, [&] { return it->template get<T>(); });
}

}  // namespace attune
