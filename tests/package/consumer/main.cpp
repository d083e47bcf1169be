// Uses the installed library as another project would.
#include <attune/attune.h>

#include <iostream>

int main() {
  attune::Model model;
  attune::Graph& graph = *model.graph;
  attune::Value* x = graph.add_input("x", {});
  graph.add_output(graph.add_node("", "Relu", {x})->output());
  graph.verify();
  try {
    attune::Model cyclic;
    attune::Node* node = cyclic.graph->add_node("", "Relu", {nullptr});
    node->set_input(0, node->output());
    cyclic.graph->verify();
  } catch (const attune::Error& error) {  // crosses the library's boundary with its type
    std::cout << graph.nodes().size() << " node; " << error.what() << '\n';
    return 0;
  }
  return 1;
}
