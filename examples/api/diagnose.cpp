// What the heads of a model do on a text.
//   diagnose FOLDER TEXT
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    attune::Translator translator = attune::Translator::load(argv[1]);
    std::vector<int64_t> ids = translator.tokenizers().source->encode(argv[2]);
    const attune::Shape shape{1, static_cast<int64_t>(ids.size())};
    attune::DiagnosisOptions options;
    options.prepare = attune::fuse;
    options.longest_source = 32;
    const attune::Diagnosis diagnosis =
        attune::diagnose(argv[1], {{"input_ids", attune::Tensor::from<int64_t>(shape, ids)}}, options);
    std::cout << attune::diagnosis_text(diagnosis, true);
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
