// Runs a Plan. One session per thread; sessions of one plan share its weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace attune {

class Profile;

using TensorMap = std::map<std::string, Datum, std::less<>>;

struct SessionOptions {
  int threads = 0;             // 0: the physical cores
  Profile* profile = nullptr;  // if set, receives every call (see profile.h)
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Plan> plan, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Throws Error(kInvalidArgument) for a missing or unknown input, a wrong type, rank or size (symbolic sizes
  // must agree between inputs), naming the input, what was expected and what was found.
  // `wanted`: names of the outputs to compute; empty: all. Inputs are taken by value: a tensor that the caller moves in
  // and that nobody else holds may be written in place (a key/value cache grows that way).
  TensorMap run(TensorMap inputs, const std::vector<std::string>& wanted = {});
  // The positional form, without maps: what the decoding loop uses. Order: plan.inputs(); undefined Datum = left out.
  // `inputs` are moved from: pass a copy of a Datum to keep its contents. Outputs with wanted[i] false stay
  // undefined (wanted empty: all). Outputs may be strided views (caches with head-room) in both forms.
  void run(std::vector<Datum>& inputs, std::vector<Datum>& outputs, const std::vector<bool>& wanted = {});
  // Sets inputs declared in PlanOptions::fixed_inputs; they must not be given to run(). Those left out keep what
  // they have. What depends on them alone is computed by the next run.
  void fix(TensorMap inputs);

  const Plan& plan() const;
  BufferPool& pool();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
