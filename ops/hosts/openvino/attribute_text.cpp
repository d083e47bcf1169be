#include "ops/hosts/openvino/attribute_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "graph/error.h"

namespace attune::openvino {
namespace {

[[noreturn]] void fail(std::string_view text) {
  throw Error(Error::Kind::kInvalidModel, fmt::format("attributes: '{}' is not understood", text));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

int64_t to_int(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') fail(text);
  return value;
}

float to_float(const std::string& text) {
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0') fail(text);
  return value;
}

std::string value_text(const Attribute& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* f = std::get_if<float>(&value)) return fmt::format("{:a}", *f);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return fmt::format("{}", fmt::join(std::get<std::vector<int64_t>>(value), ","));
}

Attribute parse_value(AttributeSignature::Kind kind, const std::string& text) {
  switch (kind) {
    case AttributeSignature::Kind::kInt:
      return to_int(text);
    case AttributeSignature::Kind::kFloat:
      return to_float(text);
    case AttributeSignature::Kind::kString:
      return text;
    case AttributeSignature::Kind::kInts: {
      std::vector<int64_t> values;
      for (const std::string& part : split(text, ',')) values.push_back(to_int(part));
      return values;
    }
  }
  fail(text);
}

}  // namespace

std::string to_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ";", name, value_text(value));
  return text;
}

Attributes from_text(const OperatorSignature& signature, std::string_view text) {
  Attributes attributes;
  for (const std::string& item : split(text, ';')) {
    const size_t equals = std::min(item.find('='), item.size());
    const std::string name = item.substr(0, equals);
    const auto known = std::find_if(signature.attributes.begin(), signature.attributes.end(),
                                    [&](const AttributeSignature& a) { return a.name == name; });
    if (equals == item.size() || known == signature.attributes.end()) fail(item);
    attributes.emplace(name, parse_value(known->kind, item.substr(equals + 1)));
  }
  return attributes;
}

}  // namespace attune::openvino
