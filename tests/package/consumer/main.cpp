// Uses the installed library as another project would; arguments are plug-ins that must load.
#include <attune/attune.h>
#include <dlfcn.h>

#include <iostream>

int main(int argc, char** argv) {
  attune::Model model = attune::parse_model(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    twice (float[n] x) => (float[n] y) { s = Add(x, x) y = Relu(s) })");
  attune::Report report;
  attune::optimize(model, report);
  attune::Session session(attune::Plan::compile(model));
  const auto outputs = session.run({{"x", attune::Tensor::from<float>({3}, {1.0F, -2.0F, 3.0F})}});
  const auto y = outputs.at("y").tensor().values<float>();
  if (y.size() != 3 || y[0] != 2 || y[1] != 0 || y[2] != 6) {
    std::cerr << "wrong result\n";
    return 1;
  }

  try {  // an error keeps its type across the library's boundary
    session.run({});
    std::cerr << "a missing input was accepted\n";
    return 1;
  } catch (const attune::Error& error) {
    std::cout << error.what() << '\n';
  }

  for (int i = 1; i < argc; ++i) {
    if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL)) {
      std::cerr << dlerror() << '\n';
      return 1;
    }
  }
  return 0;
}
