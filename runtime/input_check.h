// Checks what a caller feeds against what the model declares. Internal to the runtime.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "runtime/plan.h"

namespace attune {

class InputCheck {
 public:
  explicit InputCheck(const std::vector<Plan::Port>& ports);
  // Throws Error(kInvalidArgument) that names the input, what was expected and what was found: the kind, element
  // type, rank and fixed sizes, and that sizes of one symbol agree. A tensor without elements is a placeholder (the
  // empty cache of a first step): its sizes bind no symbol. Undefined data are not checked.
  void check(const std::vector<const Datum*>& data) const;

 private:
  struct Size {
    std::optional<int64_t> fixed;
    int symbol = -1;  // index into symbols_
    std::optional<Dim> expression;
  };
  struct Bound {
    int64_t size = -1;
    size_t input = 0;
  };

  void check_kind(size_t input, const Datum& datum) const;
  void bind(size_t input, const Shape& shape, std::vector<Bound>& bound) const;
  void check_expressions(size_t input, const Shape& shape, const std::vector<Bound>& bound) const;

  const std::vector<Plan::Port>& ports_;
  std::vector<std::vector<Size>> sizes_;  // per input; empty: rank unknown or 0
  std::vector<std::string> symbols_;
  bool has_expressions_ = false;
};

}  // namespace attune
