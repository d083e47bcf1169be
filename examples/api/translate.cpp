// Text in, text out.
//   translate FOLDER TEXT...
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    attune::Translator translator = attune::Translator::load(argv[1]);
    const std::vector<std::string> texts(argv + 2, argv + argc);
    for (const auto& best : translator.translate(texts, translator.defaults())) std::cout << best.at(0).text << '\n';
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
