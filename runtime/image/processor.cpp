#include "runtime/image/processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kLargestEdge = 1 << 14;

// Processors whose steps these are: resize, crop (some), rescale, normalise; with what holds where the file is silent.
struct Kind {
  std::string_view name;
  bool square;  // one number as size means both edges, not the shorter one
  bool crops;   // knows do_center_crop
  ResizeFilter filter;
  int64_t size, crop;
  bool clip;  // mean and deviation of CLIP, else 0.5
};
constexpr std::array kKinds{
    Kind{"ViT", true, false, ResizeFilter::kBilinear, 224, 224, false},
    Kind{"DeiT", true, true, ResizeFilter::kBicubic, 256, 224, false},
    Kind{"Beit", true, true, ResizeFilter::kBicubic, 256, 224, false},
    Kind{"CLIP", false, true, ResizeFilter::kBicubic, 224, 224, true},
    Kind{"Blip", true, false, ResizeFilter::kBicubic, 384, 384, true},
};
constexpr std::array kClipMean{0.48145466F, 0.4578275F, 0.40821073F}, kClipStd{0.26862954F, 0.26130258F, 0.27577711F};

const Kind& kind_of(const json& config) {
  std::string type = config.value("image_processor_type", config.value("feature_extractor_type", std::string("ViT")));
  for (const std::string_view end : {"ImageProcessorFast", "ImageProcessor", "FeatureExtractor"})
    if (type.ends_with(end)) type.erase(type.size() - end.size());
  for (const Kind& k : kKinds)
    if (k.name == type) return k;
  throw Error(Error::Kind::kUnsupported, fmt::format("image processor '{}'", type));
}

void read_size(const json& size, bool square, ImageProcessorOptions& o) {
  o.width = o.height = o.shortest_edge = std::nullopt;
  if (size.is_number_integer()) {
    if (square) {
      o.width = o.height = size.get<int64_t>();
    } else {
      o.shortest_edge = size.get<int64_t>();
    }
  } else if (size.is_array() && size.size() == 2) {  // older configurations: width, height
    o.width = size[0].get<int64_t>();
    o.height = size[1].get<int64_t>();
  } else if (size.contains("height") && size.contains("width")) {
    o.width = size["width"].get<int64_t>();
    o.height = size["height"].get<int64_t>();
  } else if (size.contains("shortest_edge") && !size.contains("longest_edge")) {
    o.shortest_edge = size["shortest_edge"].get<int64_t>();
  } else {
    throw Error(Error::Kind::kUnsupported, fmt::format("size {}", size.dump()));
  }
}

// One number for each channel, or one for all.
void read_channels(const json& config, const char* name, std::vector<float>& into) {
  const auto it = config.find(name);
  if (it == config.end() || it->is_null()) return;
  into = it->is_number() ? std::vector<float>(3, it->get<float>()) : it->get<std::vector<float>>();
}

ImageProcessorOptions options_of(const json& config) {
  const Kind& kind = kind_of(config);
  for (const char* step : {"do_align_long_axis", "do_thumbnail", "do_pad", "do_reduce_labels"})
    if (config.contains(step) && config[step] == true)
      throw Error(Error::Kind::kUnsupported, fmt::format("the step {}", step));
  ImageProcessorOptions o;
  o.do_resize = config.value("do_resize", true);
  o.do_center_crop = kind.crops && config.value("do_center_crop", true);
  o.do_rescale = config.value("do_rescale", true);
  o.do_normalize = config.value("do_normalize", true);
  read_size(config.contains("size") ? config["size"] : json(kind.size), kind.square, o);
  const int filter = config.value("resample", static_cast<int>(kind.filter));
  if (filter < 0 || filter > static_cast<int>(ResizeFilter::kHamming))
    throw Error(Error::Kind::kInvalidArgument, fmt::format("resample {}: expected 0 to 5", filter));
  o.resample = static_cast<ResizeFilter>(filter);
  o.crop_width = o.crop_height = kind.crop;
  if (config.contains("crop_size")) {
    const json& crop = config["crop_size"];
    o.crop_width = crop.is_object() ? crop.at("width").get<int64_t>() : crop.get<int64_t>();
    o.crop_height = crop.is_object() ? crop.at("height").get<int64_t>() : crop.get<int64_t>();
  }
  o.rescale_factor = config.value("rescale_factor", 1.0 / 255);
  if (kind.clip) {
    o.image_mean.assign(kClipMean.begin(), kClipMean.end());
    o.image_std.assign(kClipStd.begin(), kClipStd.end());
  }
  read_channels(config, "image_mean", o.image_mean);
  read_channels(config, "image_std", o.image_std);
  return o;
}

void check(const ImageProcessorOptions& o) {
  const auto edge = [](int64_t size) {
    if (size < 1 || size > kLargestEdge)
      throw Error(Error::Kind::kInvalidArgument, fmt::format("a size of {}: expected 1 to {}", size, kLargestEdge));
  };
  edge(o.width.value_or(1));
  edge(o.height.value_or(1));
  edge(o.shortest_edge.value_or(1));
  edge(o.crop_width);
  edge(o.crop_height);
  if (o.image_mean.size() != 3 || o.image_std.size() != 3 ||
      std::any_of(o.image_std.begin(), o.image_std.end(), [](float s) { return !(s > 0); }))
    throw Error(Error::Kind::kInvalidArgument, "image_mean and image_std: expected three numbers each");
}

int64_t floor_half(int64_t x) { return x >= 0 ? x / 2 : -((1 - x) / 2); }

// The middle; black where the picture ends.
Image center_crop(const Image& image, int64_t width, int64_t height, int64_t& left, int64_t& top) {
  left = floor_half(image.width - width);
  top = floor_half(image.height - height);
  Image out{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height) * 3, 0)};
  for (int64_t y = std::max<int64_t>(0, -top); y < height && y + top < image.height; ++y)
    for (int64_t x = std::max<int64_t>(0, -left); x < width && x + left < image.width; ++x)
      std::copy_n(image.pixels.begin() + ((y + top) * image.width + x + left) * 3, 3,
                  out.pixels.begin() + (y * width + x) * 3);
  return out;
}

Image resized(const Image& image, const ImageProcessorOptions& o) {
  if (!o.shortest_edge) return resize(image, *o.width, *o.height, o.resample);
  const int64_t shorter = std::min(image.width, image.height), longer = std::max(image.width, image.height);
  const auto other =
      static_cast<int64_t>(static_cast<double>(*o.shortest_edge * longer) / static_cast<double>(shorter));
  if (other > kLargestEdge * 4)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("a picture of {} x {} pixels is too narrow", image.width, image.height));
  return image.width <= image.height ? resize(image, *o.shortest_edge, other, o.resample)
                                     : resize(image, other, *o.shortest_edge, o.resample);
}

}  // namespace

ImageProcessorOptions read_image_processor(const fs::path& folder) {
  constexpr const char* kName = "preprocessor_config.json";
  const fs::path file = fs::exists(folder / kName) ? folder / kName : folder / ".." / kName;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(Error::Kind::kIo, fmt::format("{}: pictures need it", (folder / kName).string()));
  return within([&] { return file.string(); },
                [&] {
                  const json config = json::parse(in, nullptr, false);
                  if (!config.is_object()) throw Error(Error::Kind::kInvalidArgument, "not a JSON object");
                  try {
                    ImageProcessorOptions o = options_of(config);
                    check(o);
                    return o;
                  } catch (const json::exception&) {
                    throw Error(Error::Kind::kInvalidArgument, "a setting has an unexpected type");
                  }
                });
}

ProcessedImage process_image(const Image& original, const ImageProcessorOptions& o) {
  check(o);
  Image image = o.do_resize ? resized(original, o) : original;
  const double x_scale = static_cast<double>(original.width) / static_cast<double>(image.width);
  const double y_scale = static_cast<double>(original.height) / static_cast<double>(image.height);
  int64_t left = 0, top = 0;
  if (o.do_center_crop) image = center_crop(image, o.crop_width, o.crop_height, left, top);
  const auto plane = static_cast<size_t>(image.width * image.height);
  ProcessedImage out{Tensor::allocate(DataType::kFloat, {1, 3, image.height, image.width}),
                     static_cast<double>(left) * x_scale, static_cast<double>(top) * y_scale,
                     static_cast<double>(image.width) * x_scale, static_cast<double>(image.height) * y_scale};
  float* values = out.pixel_values.mutable_data<float>();
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < plane; ++i) {
      const double pixel = image.pixels[i * 3 + c];
      auto v = static_cast<float>(o.do_rescale ? pixel * o.rescale_factor : pixel);
      if (o.do_normalize) v = (v - o.image_mean[c]) / o.image_std[c];
      values[c * plane + i] = v;
    }
  return out;
}

}  // namespace attune
