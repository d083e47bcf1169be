// What a call threw.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "graph/error.h"

namespace attune::test {

// The kind and text of the Error that `f` throws; a test failure if it throws none.
template <class F>
Error thrown(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Error::Kind::kInternal, ""};
}

// The text of the Error that `f` throws, or "no error".
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

MATCHER_P2(IsError, kind, text, "") {
  *result_listener << "which says: " << arg.what();
  return arg.kind() == kind && std::string(arg.what()).find(text) != std::string::npos;
}

}  // namespace attune::test
