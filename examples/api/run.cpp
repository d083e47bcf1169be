// Runs one ONNX file on tensors: here the encoder of a model folder on three token ids.
//   run ENCODER.onnx
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    attune::Session session(attune::Plan::load(argv[1]));
    attune::TensorMap inputs;
    for (const attune::Plan::Port& port : session.plan().inputs())
      inputs[port.name] = port.type.tensor.element == attune::DataType::kBool
                              ? attune::Tensor::from<bool>({1, 3}, {true, true, true})
                              : attune::Tensor::from<int64_t>({1, 3}, {1, 1, 1});
    for (const auto& [name, value] : session.run(std::move(inputs)))
      std::cout << name << ' ' << value.tensor().shape().to_string() << '\n';
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
