// A model made ready to run: one kernel per node, weights packed, lifetimes known. Immutable and shared.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace attune {

struct PlanOptions {
  // Inputs that stay the same over many runs (encoder states, their mask): what depends on them alone is computed
  // once for each Session::fix().
  std::set<std::string> fixed_inputs;
  KernelOptions kernels;
};

class Plan {
 public:
  // Throws Error(kUnsupported) that lists ALL nodes without a kernel at once; Error(kInvalidModel).
  // The plan keeps what it needs of the model; the model may go.
  static std::shared_ptr<const Plan> compile(const Model& model, const PlanOptions& options = {});
  // Of a file. Operators of ai.attune that the file has as functions, too (target `portable`), run as attune's own.
  static std::shared_ptr<const Plan> load(const std::filesystem::path& file, const PlanOptions& options = {});
  ~Plan();

  struct Port {
    std::string name;
    ValueType type;
    bool optional = false;  // an input with a default
    // An input that only branches of an If read. It may be a placeholder in runs that take the other branch (the
    // caches of a merged decoder), so its symbolic sizes are not held against other inputs'.
    bool conditional = false;
  };
  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  // Position of a port by name; nothing if there is none.
  std::optional<size_t> find_input(std::string_view name) const;
  std::optional<size_t> find_output(std::string_view name) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  Plan();
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
