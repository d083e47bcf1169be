#include "graph/error.h"

namespace attune {

Error::Error(Kind kind, std::string message) : kind_(kind), message_(std::move(message)), text_(message_) {}

Error& Error::add_frame(std::string frame) {
  // A reader and its caller may name the same file.
  const bool said = frames_.empty() ? message_.starts_with(frame + ": ") : frames_.back() == frame;
  if (said) return *this;
  frames_.push_back(std::move(frame));
  text_.clear();
  for (auto it = frames_.rbegin(); it != frames_.rend(); ++it) {
    text_ += *it;
    text_ += std::next(it) == frames_.rend() ? ": " : " > ";
  }
  text_ += message_;
  return *this;
}

}  // namespace attune
