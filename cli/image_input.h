// attune generate --image.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/alignment_output.h"
#include "runtime/generator.h"
#include "runtime/image/processor.h"

namespace attune::cli {

struct ImageInput {
  std::vector<std::string> files;  // --image

  void add_options(CLI::App& command);
  bool given() const { return !files.empty(); }
};

// The pictures of a request, as the model sees them.
struct SeenImages {
  std::vector<std::string> files;
  std::vector<Image> originals;
  std::vector<ProcessedImage> processed;

  TensorMap inputs() const;  // of the encoder
};
SeenImages read_images(const std::string& folder, const ImageInput& input);

// What the best generation of each picture attended to, drawn on it.
void draw_patches(const std::string& folder, const AlignmentOutput& alignment, const SeenImages& images,
                  const std::vector<std::vector<Generation>>& generations, const Tokenizers& tokenizers);

}  // namespace attune::cli
