#pragma once

namespace attune::cli {

// Ends the program with one message and exit code 2 if a mapped file loses its bytes while it is read: shortened in
// place, or on a device that fails. The kernel reports that as SIGBUS, which only the program can turn into an error.
void report_lost_files();

}  // namespace attune::cli
