// Text of a picture (OCR, captions), piece by piece.
//   caption FOLDER PICTURE
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    attune::Generator generator = attune::Generator::load(argv[1]);
    const attune::Tokenizers tokenizers = attune::find_tokenizers(argv[1], -1);
    if (!tokenizers.target) return 2;
    const auto picture = attune::process_image(attune::read_image(argv[2]), attune::read_image_processor(argv[1]));
    attune::TextStream text(*tokenizers.target);
    generator.generate(picture.inputs, generator.defaults(),
                       [&](size_t, size_t, int64_t token) { std::cout << text.push(token) << std::flush; });
    std::cout << text.finish() << '\n';
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
