// The options of generate that are about alignments, and what comes of them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/generator.h"
#include "runtime/picture/alignment.h"
#include "runtime/text/tokenizer.h"

namespace attune::cli {

struct AlignmentOutput {
  std::string file;                // --alignment
  bool show = false;               // --show-alignment
  std::vector<std::string> heads;  // --alignment-heads: "2", "0.3"
  std::vector<int64_t> layers;     // --alignment-layers

  void add_options(CLI::App& command);
  // A picture is asked for.
  bool draws() const { return show || !file.empty(); }
  // Throws where options have nothing to act on (`others`: alignments are put out elsewhere), or the file can't be
  // written.
  void check_options(bool others) const;
  // Makes the generator give the alignments. Models that aren't converted have their attentions fused in memory.
  void prepare(GeneratorOptions& options, const GenerationOptions& request) const;
  // Pictures of the best generation of each source: to the terminal, and to the file (FILE-2.svg ... for further
  // sources). `sources`: token ids; `titles` may be shorter.
  void draw(const std::vector<std::vector<Generation>>& generations, const std::vector<std::vector<int64_t>>& sources,
            const Tokenizers& tokenizers, const std::vector<std::string>& titles) const;
  // The picture of source `index`.
  void draw(const AlignmentPicture& picture, size_t index) const;
  // --alignment-layers and --alignment-heads.
  HeadSelection selection() const;
};

}  // namespace attune::cli
