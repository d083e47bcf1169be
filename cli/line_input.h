// attune generate --input: one sentence a line, in batches, in order.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runtime/generator.h"
#include "runtime/text/tokenizer.h"

namespace attune::cli {

struct LineInput {
  std::string file;   // --input; "-": standard input
  size_t batch = 16;  // --batch

  void add_options(CLI::App& command);
  bool given() const { return !file.empty(); }
};

// How an output is printed.
struct TextOutput {
  bool stream = false;  // each piece as soon as it is settled
  bool json = false;    // one object a line
};

// Reads, generates and prints line by line; an empty line stays one. Holds a few batches at a time, whatever the
// input's length, and shows rate and time left on a terminal.
void generate_lines(const LineInput& input, Generator& generator, const GenerationOptions& options,
                    const Tokenizers& tokenizers, const TextOutput& output);

// Generates from one source, and prints its best sequence's text piece by piece, with a newline at the end. Gives what
// was generated from it.
std::vector<Generation> stream_source(Generator& generator, const TensorMap& inputs, const GenerationOptions& options,
                                      const Tokenizer& tokenizer);

}  // namespace attune::cli
