// Pictures of alignments: which inputs each output attended to.
#pragma once

#include <string>
#include <vector>

namespace attune {

// One matrix of attention weights, rows by columns, values in [0, 1].
struct AlignmentHead {
  std::string name;            // "layer 1, head 0", "mean"
  std::vector<float> weights;  // row major
};

struct AlignmentPicture {
  std::string title;
  std::vector<std::string> rows;     // output tokens, top to bottom
  std::vector<std::string> columns;  // input tokens (or seconds of audio), left to right
  std::vector<AlignmentHead> heads;  // at least one
};

// Each throws Error(kInvalidArgument) if a head's size isn't rows × columns, or there is no head.

// For a terminal: one line a row, weights in percent, shaded by colour if `colour`. Columns that don't fit into `width`
// characters are numbered, with a legend below.
std::string alignment_text(const AlignmentPicture& picture, size_t head, bool colour, size_t width);
// A heatmap of one head as a stand-alone SVG 1.1 document.
std::string alignment_svg(const AlignmentPicture& picture, size_t head);
// The same as a PNG: text in the scripts that the machine's fonts have.
std::string alignment_png(const AlignmentPicture& picture, size_t head);
// One self-contained page: all heads to choose from, the weight under the pointer.
std::string alignment_html(const AlignmentPicture& picture);
// {"title", "rows", "columns", "heads": [{"name", "weights": [[...]]}]}
std::string alignment_json(const AlignmentPicture& picture);

// Throws Error(kInvalidArgument) for a file whose extension isn't .svg, .png, .html or .json.
void check_alignment_file(const std::string& file);
// Writes the form that the file's extension names: .svg, .png, .html or .json (to a temporary name, then renamed).
// Throws Error(kInvalidArgument) for another extension, Error(kIo).
void write_alignment(const AlignmentPicture& picture, const std::string& file);

}  // namespace attune
