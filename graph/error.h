// The one exception type of attune, with frames that say where it happened.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace attune {

// Thrown for everything a caller can cause. what() reads from the outside in:
//   decoder.onnx > node '/layers.3/MatMul' (MatMul) > input 1: expected rank 4, got rank 3
class Error : public std::exception {
 public:
  enum class Kind {
    kInvalidModel,     // the model breaks the ONNX specification, or contradicts itself
    kUnsupported,      // valid, but attune has no kernel or rule for it
    kInvalidArgument,  // an argument, input tensor or option of the caller
    kIo,               // a file could not be read or written
    kLimit,            // a size beyond what attune accepts
    kInternal          // a defect in attune
  };

  Error(Kind kind, std::string message);

  Kind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }
  // Puts `frame` in front of the frames there are.
  Error& add_frame(std::string frame);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Kind kind_;
  std::string message_;
  std::vector<std::string> frames_;  // innermost first
  std::string text_;
};

// Runs `body`; an Error that leaves it gets `frame` in front. Any other std::bad_alloc or
// std::exception is passed on unchanged. `frame` may be a string or a callable that gives one
// (so that it costs nothing when nothing is thrown).
template <class Frame, class Body>
decltype(auto) within(Frame&& frame, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& e) {
    if constexpr (std::is_invocable_v<Frame>) {
      e.add_frame(std::forward<Frame>(frame)());
    } else {
      e.add_frame(std::string(std::forward<Frame>(frame)));
    }
    throw;
  }
}

}  // namespace attune
