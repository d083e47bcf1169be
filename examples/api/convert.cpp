// Converts a model folder: its attentions become one node each, and the result is checked before it is written.
//   convert SOURCE RESULT
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const attune::Conversion conversion = attune::convert(argv[1], argv[2], {});
    for (const attune::ConvertedModel& m : conversion.models)
      std::cout << m.source.filename().string() << ": " << m.attentions << " attentions, largest difference "
                << m.verification->largest_absolute << '\n';
    return conversion.written ? 0 : 1;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
