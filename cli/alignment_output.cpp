#include "cli/alignment_output.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "convert/convert.h"
#include "graph/io/output_file.h"
#include "runtime/translator.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// Every head can be chosen in these.
bool holds_each_head(const std::string& file) {
  const fs::path extension = fs::path(file).extension();
  return extension == ".html" || extension == ".json";
}

}  // namespace

void AlignmentOutput::add_options(CLI::App& command) {
  command.add_option("--alignment", file,
                     "Draw the alignment to FILE.svg, .png, .html or .json (these: each head too)");
  command.add_flag("--show-alignment", show, "Print the alignment: rows output tokens, columns input tokens, percent");
  command
      .add_option("--alignment-layers", layers,
                  "Decoder layers whose cross-attention is averaged, from 0; -1: the last (default: all)")
      ->delimiter(',');
  command.add_option("--alignment-heads", heads, "Heads of these layers, from 0, or LAYER.HEAD (default: all)")
      ->delimiter(',');
}

void AlignmentOutput::check_options(bool others) const {
  if ((!layers.empty() || !heads.empty()) && !draws() && !others)
    invalid(
        "--alignment-layers and --alignment-heads: expected --alignment, --show-alignment or --alignments with them");
  if (file.empty()) return;
  check_alignment_file(file);
  check_writable(file);
}

HeadSelection AlignmentOutput::selection() const {
  HeadSelection s;
  s.layers = layers;
  for (const std::string& head : heads) {
    const auto numbers = layer_and_head(head);
    if (!numbers) invalid(fmt::format("--alignment-heads {}: expected a head, or LAYER.HEAD", head));
    if (numbers->size() == 1) {
      s.heads.push_back(numbers->front());
    } else {
      s.pairs.emplace_back(numbers->front(), numbers->back());
    }
  }
  if (!s.pairs.empty() && (!s.heads.empty() || !s.layers.empty()))
    invalid("--alignment-heads: LAYER.HEAD can't be combined with plain heads or --alignment-layers");
  return s;
}

void AlignmentOutput::prepare(GeneratorOptions& options, const GenerationOptions& request) const {
  options.alignments = request.output_alignments;
  if (!options.alignments) return;
  options.alignment_heads = selection();
  if (options.alignment_heads.empty()) options.alignment_heads.pairs = request.alignment_heads;
  options.each_head = holds_each_head(file);
  options.prepare = fuse;
}

void AlignmentOutput::draw(const std::vector<std::vector<Generation>>& generations,
                           const std::vector<std::vector<int64_t>>& sources, const Tokenizers& tokenizers,
                           const std::vector<std::string>& titles) const {
  if (sources.size() != generations.size()) invalid("an alignment picture needs a source of tokens");
  for (size_t i = 0; i < generations.size(); ++i) {
    AlignmentPicture p = alignment_picture(generations[i].front(), sources[i], tokenizers);
    if (i < titles.size()) p.title = titles[i];
    draw(p, i);
  }
}

void AlignmentOutput::draw(const AlignmentPicture& picture, size_t index) const {
  if (show) print(alignment_text(picture, 0, terminal_has_colour(), terminal_width()));
  if (!file.empty()) write_alignment(picture, numbered_file(file, index));
}

}  // namespace attune::cli
