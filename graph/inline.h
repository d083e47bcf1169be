// Replaces the call of a function by the function's body.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace attune {

// Puts a copy of `function`'s body in place of `call`, in the graph (or body) that holds it, and erases `call`.
// Attributes that the body takes from the call are filled in; those that the call leaves out get the
// function's defaults, or are left out. Gives the new nodes, without those of nested graphs, in topological order.
// Throws Error(kInvalidModel) if the call has more inputs or outputs than the function.
std::vector<Node*> inline_function(Node* call, const Function& function);

// Replaces every call of a function of `model` in `graph` and its bodies, those in what was put there included; gives
// how many there were. `replace` does it for one call, as inline_function(). Throws Error(kInvalidModel) where
// functions call each other without end, Error(kLimit) where a model of few nodes would become very many.
using ReplaceCall = std::function<std::vector<Node*>(Node* call, const Function& function)>;
size_t inline_calls(Graph& graph, const Model& model, const ReplaceCall& replace = inline_function);

// Drops the types of a function's values, which may be true of one call alone.
void forget_types(const Graph& body);

}  // namespace attune
