// Which words of the source each word of a translation attended to: printed, and drawn to a file.
//   align FOLDER TEXT PICTURE.svg|png|html|json
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    attune::GeneratorOptions load;
    load.alignments = load.each_head = true;
    load.prepare = attune::fuse;  // a model that isn't converted shows its attention too
    attune::Translator translator = attune::Translator::load(argv[1], load);
    attune::GenerationOptions options = translator.defaults();
    options.output_alignments = true;
    const attune::Translation best = translator.translate({argv[2]}, options).at(0).at(0);
    const attune::AlignmentPicture picture = translator.alignment(best);
    std::cout << attune::alignment_text(picture, 0, false, 120);
    attune::write_alignment(picture, argv[3]);
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
