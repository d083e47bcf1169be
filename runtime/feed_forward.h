// Feed-forward layers as one node, where plans round activations.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace attune {

// Two ai.attune Linear nodes with stored weights (see stored_weights.h), the second one the only reader of the first
// one, become one node of ai.attune.runtime, FeedForward (see ops/feed_forward.cpp): what lies between is then rounded
// for the second product as soon as it is known, and never stored as floats. Bodies, too. joined() is told of each pair
// before it is erased.
void join_feed_forward(Graph& graph, const std::function<void(Node& first, Node& second, Node& both)>& joined);

}  // namespace attune
