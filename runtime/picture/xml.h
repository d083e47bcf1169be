// Text in XML. Internal to the pictures.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// For text and for attributes in double quotes; control characters become blanks.
std::string xml_escape(std::string_view text);

}  // namespace attune
