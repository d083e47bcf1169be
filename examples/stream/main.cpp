// Reads Morse code from standard input and writes text as soon as it is there: a decoder with monotonic attention over
// an encoder whose input never has to end.
//   attune_stream FOLDER < CODE       FOLDER: where encoder.txt and decoder.txt are
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "graph/io/text.h"
#include "runtime/monotonic_stream.h"

namespace {

using attune::Tensor;

attune::Model load(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw attune::Error(attune::Error::Kind::kIo, file + ": can't be read");
  return attune::within([&] { return file; }, [&] { return attune::parse_model(text.str()); });
}

// Turns symbols into encoder states, from one piece to the next.
class Encoder {
 public:
  explicit Encoder(const std::string& file) : session_(attune::Plan::compile(load(file))) {}

  attune::TensorMap encode(std::span<const char> symbols) {
    const std::vector<int64_t> codes(symbols.begin(), symbols.end());
    const auto n = static_cast<int64_t>(codes.size());
    attune::TensorMap out = session_.run(
        {{"symbols", Tensor::from<int64_t>({n}, std::span<const int64_t>(codes))}, {"marks", marks_}, {"sign", sign_}});
    marks_ = out.at("new_marks");
    sign_ = out.at("new_sign");
    return {{"source", out.at("source")}, {"letters", out.at("letters")}};
  }

 private:
  attune::Session session_;
  attune::Datum marks_ = Tensor::scalar<int64_t>(1), sign_ = Tensor::scalar(1.0F);
};

// The next piece of standard input, as large as what has arrived; empty at its end.
std::span<const char> read_piece(std::span<char> memory) {
  const ssize_t n = read(STDIN_FILENO, memory.data(), memory.size());
  if (n < 0) throw attune::Error(attune::Error::Kind::kIo, "can't read standard input");
  return memory.first(static_cast<size_t>(n));
}

void run(const std::string& folder) {
  Encoder encoder(folder + "/encoder.txt");
  attune::MonotonicStreamOptions options;
  options.states = {{"sign", "new_sign"}};
  attune::MonotonicStream stream(load(folder + "/decoder.txt"), options);
  std::vector<char> memory(4096);
  const attune::TensorMap start{{"sign", Tensor::from<float>({1, 1, 1}, {1.0F})}};
  auto outputs = stream.step(start);
  while (true) {
    while (!outputs) {
      std::fflush(stdout);
      const auto piece = read_piece(memory);
      if (piece.empty()) {
        stream.append(encoder.encode(std::array{' '}));  // ends the last letter
        stream.finish();
      } else {
        stream.append(encoder.encode(piece));
      }
      outputs = stream.resume();
    }
    if (stream.at_end()) break;
    std::putchar(static_cast<int>(outputs->at("character").tensor().data<int64_t>()[0]));
    outputs = stream.step({});
  }
  std::putchar('\n');
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: attune_stream FOLDER < CODE\n";
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const attune::Error& e) {
    std::cerr << "attune_stream: " << e.what() << '\n';
    return 2;
  }
  return 0;
}
