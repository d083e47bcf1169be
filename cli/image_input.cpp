#include "cli/image_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "runtime/folder.h"
#include "runtime/json_file.h"
#include "runtime/picture/patches.h"
#include "runtime/translator.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// Of the picture encoder's output; 0 if the configuration doesn't say. An encoder in stages (Swin) joins two by two
// patches from each to the next.
int64_t patch_size_of(const fs::path& folder) {
  const auto config = read_json_object(configuration_file(folder, "config.json"));
  if (!config) return 0;
  for (const char* name : {"encoder", "vision_config"}) {
    const auto part = config->find(name);
    if (part == config->end() || !part->is_object() || !part->contains("patch_size") ||
        !part->at("patch_size").is_number_integer())
      continue;
    const auto depths = part->find("depths");
    const size_t stages = depths != part->end() && depths->is_array() ? depths->size() : 1;
    return part->at("patch_size").get<int64_t>() << std::clamp<size_t>(stages, 1, 16) >> 1;
  }
  return 0;
}

PatchGrid grid_of(const ProcessedImage& seen, size_t positions, int64_t patch_size) {
  if (seen.grid_columns > 0) return {seen.grid_columns, seen.grid_rows, 0};
  const Tensor& pixels = seen.inputs.at("pixel_values").tensor();
  const PatchGrid grid = patch_grid(positions, pixels.dim(3), pixels.dim(2), patch_size);
  if (grid.columns == 0)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} positions of the encoder aren't patches of a picture of {} x {}", positions,
                            pixels.dim(3), pixels.dim(2)));
  return grid;
}

PatchPicture picture_of(const Generation& g, const std::string& file, const Image& original, const ProcessedImage& seen,
                        int64_t patch_size, const Tokenizers& tokenizers) {
  PatchPicture p;
  p.title = fs::path(file).filename().string();
  p.file_bytes = read_bytes(file).value_or(std::string());
  p.width = original.width;
  p.height = original.height;
  p.left = seen.left;
  p.top = seen.top;
  p.covered_width = seen.width;
  p.covered_height = seen.height;
  const size_t positions = g.alignment.empty() ? 0 : g.alignment.front().size();
  const PatchGrid grid = grid_of(seen, positions, patch_size);
  p.grid_columns = grid.columns;
  p.grid_rows = grid.rows;
  if (seen.turned) std::swap(p.grid_columns, p.grid_rows);
  for (size_t i = 0; i < g.alignment.size() && g.prompt_length + i < g.tokens.size(); ++i) {
    p.tokens.push_back(piece_of(tokenizers.target, g.tokens[g.prompt_length + i]));
    for (size_t row = 0; row < p.grid_rows; ++row)
      for (size_t column = 0; column < p.grid_columns; ++column) {
        // Of a picture that was turned clockwise, a column is what was seen as a row.
        const size_t patch = seen.turned ? column * grid.columns + grid.columns - 1 - row : row * grid.columns + column;
        p.weights.push_back(g.alignment[i].at(grid.in_front + patch));
      }
  }
  return p;
}

}  // namespace

void ImageInput::add_options(CLI::App& command) {
  command.add_option("--image", files, "Picture of a source (.png, .jpg; may be given several times)");
}

TensorMap SeenImages::inputs() const {
  TensorMap out;
  for (const auto& [name, first] : processed.at(0).inputs) {
    std::vector<float> values;
    for (const ProcessedImage& p : processed) {
      const Tensor& own = p.inputs.at(name).tensor();
      if (!(own.shape() == first.tensor().shape()))
        throw Error(Error::Kind::kInvalidArgument, "the pictures come out in different sizes: give them one by one");
      values.insert(values.end(), own.values<float>().begin(), own.values<float>().end());
    }
    Shape shape = first.tensor().shape();
    shape[0] = static_cast<int64_t>(processed.size());
    out[name] = Tensor::from<float>(shape, values);
  }
  return out;
}

SeenImages read_images(const std::string& folder, const ImageInput& input) {
  const ImageProcessorOptions options = read_image_processor(folder);
  SeenImages out;
  out.files = input.files;
  for (const std::string& file : input.files) {
    out.originals.push_back(read_image(file));
    out.processed.push_back(within([&] { return file; }, [&] { return process_image(out.originals.back(), options); }));
  }
  return out;
}

void draw_patches(const std::string& folder, const AlignmentOutput& alignment, const SeenImages& images,
                  const std::vector<std::vector<Generation>>& generations, const Tokenizers& tokenizers) {
  if (alignment.file.empty())
    throw Error(Error::Kind::kInvalidArgument, "attention over a picture needs --alignment FILE");
  const int64_t patch_size = patch_size_of(folder);
  for (size_t i = 0; i < generations.size(); ++i)
    write_patches(picture_of(generations[i].front(), images.files[i], images.originals[i], images.processed[i],
                             patch_size, tokenizers),
                  numbered_file(alignment.file, i));
}

}  // namespace attune::cli
