// Whether a host's threads do the work: see parallel.h.
#pragma once

namespace attune {

// True on a thread whose parallel work goes to somebody else's Workers, and within a part that runs on one of theirs:
// libraries that would start threads of their own get one.
bool on_host_threads();

}  // namespace attune
