#include "cli/image_input.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/picture/patches.h"
#include "runtime/translator.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// Of the picture encoder; 0 if the configuration doesn't say.
int64_t patch_size_of(const fs::path& folder) {
  const fs::path file = fs::exists(folder / "config.json") ? folder / "config.json" : folder / ".." / "config.json";
  std::ifstream in(file, std::ios::binary);
  const auto config = nlohmann::json::parse(in, nullptr, false);
  if (!config.is_object()) return 0;
  for (const char* part : {"encoder", "vision_config"})
    if (config.contains(part) && config[part].is_object() && config[part].contains("patch_size") &&
        config[part]["patch_size"].is_number_integer())
      return config[part]["patch_size"].get<int64_t>();
  return 0;
}

std::string file_bytes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

PatchPicture picture_of(const Generation& g, const std::string& file, const Image& original, const ProcessedImage& seen,
                        int64_t patch_size, const Tokenizers& tokenizers) {
  PatchPicture p;
  p.title = fs::path(file).filename().string();
  p.file_bytes = file_bytes(file);
  p.width = original.width;
  p.height = original.height;
  p.left = seen.left;
  p.top = seen.top;
  p.covered_width = seen.width;
  p.covered_height = seen.height;
  const size_t positions = g.alignment.empty() ? 0 : g.alignment.front().size();
  const PatchGrid grid = patch_grid(positions, seen.pixel_values.dim(3), seen.pixel_values.dim(2), patch_size);
  if (grid.columns == 0)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} positions of the encoder aren't patches of a picture of {} x {}", positions,
                            seen.pixel_values.dim(3), seen.pixel_values.dim(2)));
  p.grid_columns = grid.columns;
  p.grid_rows = grid.rows;
  for (size_t i = 0; i < g.alignment.size() && g.prompt_length + i < g.tokens.size(); ++i) {
    p.tokens.push_back(piece_of(tokenizers.target, g.tokens[g.prompt_length + i]));
    p.weights.insert(p.weights.end(), g.alignment[i].begin() + static_cast<std::ptrdiff_t>(grid.in_front),
                     g.alignment[i].end());
  }
  return p;
}

}  // namespace

void ImageInput::add_options(CLI::App& command) {
  command.add_option("--image", files, "Picture of a source (.png, .jpg; may be given several times)");
}

TensorMap SeenImages::inputs() const {
  const Shape one = processed.at(0).pixel_values.shape();
  std::vector<float> values;
  for (const ProcessedImage& p : processed) {
    if (!(p.pixel_values.shape() == one))
      throw Error(Error::Kind::kInvalidArgument, "the pictures come out in different sizes: give them one by one");
    const auto own = p.pixel_values.values<float>();
    values.insert(values.end(), own.begin(), own.end());
  }
  return {
      {"pixel_values", Tensor::from<float>({static_cast<int64_t>(processed.size()), one[1], one[2], one[3]}, values)}};
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
                  alignment.numbered_file(i));
}

}  // namespace attune::cli
