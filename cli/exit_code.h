#pragma once

namespace attune::cli {

// 1 is for a difference that a command was asked to look for. Errors (bad files, wrong arguments) are 2.
enum ExitCode : int { kSuccess = 0, kDifference = 1, kError = 2 };

}  // namespace attune::cli
