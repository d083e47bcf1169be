// A model, run once.
#pragma once

#include <string>
#include <vector>

#include "runtime/profile.h"
#include "runtime/session.h"

namespace attune::test {

struct ProfiledRun {
  std::vector<double> y;  // the output of this name
  DataType type;          // of y
  std::vector<std::string> ops;
};

inline ProfiledRun profiled_run(const Model& model, const TensorMap& inputs) {
  Profile profile;
  Session session(Plan::compile(model), {.threads = 1, .profile = &profile});
  const TensorMap outputs = session.run(inputs);
  ProfiledRun out{outputs.at("y").tensor().to_double(), outputs.at("y").tensor().type(), {}};
  for (const auto& e : profile.events()) out.ops.push_back(e.op);
  return out;
}

}  // namespace attune::test
