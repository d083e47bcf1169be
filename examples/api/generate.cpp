// Generates from token ids, with beams, and prints each token as soon as it is settled.
//   generate FOLDER ID...
#include <attune/attune.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    attune::Generator generator = attune::Generator::load(argv[1]);
    std::vector<int64_t> ids;
    for (int i = 2; i < argc; ++i) ids.push_back(std::stoll(argv[i]));
    const attune::Shape shape{1, static_cast<int64_t>(ids.size())};
    attune::GenerationOptions options = generator.defaults();
    options.num_beams = 4;
    const auto settled = [](size_t, size_t, int64_t token) { std::cout << token << ' ' << std::flush; };
    const auto results =
        generator.generate({{"input_ids", attune::Tensor::from<int64_t>(shape, ids)}}, options, settled);
    std::cout << "\nscore " << results.at(0).at(0).score.value() << '\n';
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
