// Speech to text.
//   transcribe WHISPER_FOLDER SOUND [LANGUAGE]
#include <attune/attune.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    attune::Transcriber transcriber = attune::Transcriber::load(argv[1]);
    attune::TranscriptionOptions options = transcriber.defaults();
    options.timestamps = true;
    if (argc > 3) options.language = argv[3];
    const attune::Audio sound = attune::read_audio(argv[2]);
    // Each segment comes as soon as it is settled.
    const auto transcript =
        transcriber.transcribe(sound, options, [](const attune::TranscriptSegment& segment, double done) {
          std::cout << segment.start << " s to " << segment.end << " s: " << segment.text << "  (" << done
                    << " s done)\n";
        });
    std::cout << "language: " << transcript.language << '\n';
    return 0;
  } catch (const attune::Error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
