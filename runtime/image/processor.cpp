#include "runtime/image/processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/folder.h"
#include "runtime/image/flattened_patches.h"
#include "runtime/json_file.h"
#include "runtime/settings.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kLargestEdge = 1 << 14, kMostValues = 1 << 27;

// Processors whose steps these are: resize, crop (some), rescale, normalise; with what holds where the file is silent.
struct Kind {
  std::string_view name;
  bool square;  // one number as size means both edges, not the shorter one
  bool crops;   // knows do_center_crop
  ResizeFilter filter;
  int64_t width, height, crop;
  bool clip;              // mean and deviation of CLIP, else 0.5
  bool document = false;  // knows the steps of Donut
};
constexpr std::array kKinds{
    Kind{"ViT", true, false, ResizeFilter::kBilinear, 224, 224, 224, false},
    Kind{"DeiT", true, true, ResizeFilter::kBicubic, 256, 256, 224, false},
    Kind{"Beit", true, true, ResizeFilter::kBicubic, 256, 256, 224, false},
    Kind{"CLIP", false, true, ResizeFilter::kBicubic, 224, 0, 224, true},
    Kind{"Blip", true, false, ResizeFilter::kBicubic, 384, 384, 384, true},
    Kind{"Donut", true, false, ResizeFilter::kBilinear, 1920, 2560, 224, false, true},
};
constexpr std::string_view kPatches = "Pix2Struct";
constexpr std::array kClipMean{0.48145466F, 0.4578275F, 0.40821073F}, kClipStd{0.26862954F, 0.26130258F, 0.27577711F};

std::string type_of(const json& config) {
  std::string type =
      setting(config, "image_processor_type", setting(config, "feature_extractor_type", std::string("ViT")));
  for (const std::string_view end : {"ImageProcessorFast", "ImageProcessor", "FeatureExtractor"})
    if (type.ends_with(end)) type.erase(type.size() - end.size());
  return type;
}

const Kind& kind_of(const std::string& type) {
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
  into = read_setting(name, *it, [&] {
    return it->is_number() ? std::vector<float>(3, it->get<float>()) : it->get<std::vector<float>>();
  });
}

FlattenedPatches patches_of(const json& config) {
  if (setting(config, "is_vqa", false))
    throw Error(Error::Kind::kUnsupported, "is_vqa: a question would have to be written above the picture");
  if (!setting(config, "do_normalize", true)) throw Error(Error::Kind::kUnsupported, "patches without do_normalize");
  FlattenedPatches p;
  if (const auto size = config.find("patch_size"); size != config.end()) {
    read_setting("patch_size", *size, [&] {
      p.height = size->at("height").get<int64_t>();
      p.width = size->at("width").get<int64_t>();
    });
  }
  p.max_patches = setting(config, "max_patches", p.max_patches);
  return p;
}

void read_document_steps(const json& config, ImageProcessorOptions& o) {
  o.do_align_long_axis = setting(config, "do_align_long_axis", false);
  o.do_thumbnail = setting(config, "do_thumbnail", true);
  o.do_pad = setting(config, "do_pad", true);
  if (!o.width || !o.height) throw Error(Error::Kind::kUnsupported, "size without height and width");
  o.shortest_edge = std::min(*o.width, *o.height);
}

ImageProcessorOptions options_of(const json& config) {
  ImageProcessorOptions o;
  const std::string type = type_of(config);
  if (type == kPatches) {
    o.patches = patches_of(config);
    return o;
  }
  const Kind& kind = kind_of(type);
  o.do_resize = setting(config, "do_resize", true);
  o.do_center_crop = kind.crops && setting(config, "do_center_crop", true);
  o.do_rescale = setting(config, "do_rescale", true);
  o.do_normalize = setting(config, "do_normalize", true);
  const json usual = kind.square ? json{{"height", kind.height}, {"width", kind.width}} : json(kind.width);
  const json size = setting(config, "size", usual);
  read_setting("size", size, [&] { read_size(size, kind.square, o); });
  if (kind.document) read_document_steps(config, o);
  const int filter = setting(config, "resample", static_cast<int>(kind.filter));
  if (filter < 0 || filter > static_cast<int>(ResizeFilter::kHamming))
    throw Error(Error::Kind::kInvalidArgument, fmt::format("resample {}: expected 0 to 5", filter));
  o.resample = static_cast<ResizeFilter>(filter);
  o.crop_width = o.crop_height = kind.crop;
  if (config.contains("crop_size")) {
    const json& crop = config["crop_size"];
    read_setting("crop_size", crop, [&] {
      o.crop_width = (crop.is_object() ? crop.at("width") : crop).get<int64_t>();
      o.crop_height = (crop.is_object() ? crop.at("height") : crop).get<int64_t>();
    });
  }
  o.rescale_factor = setting(config, "rescale_factor", 1.0 / 255);
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
  if (o.patches) {
    edge(o.patches->width);
    edge(o.patches->height);
    edge(o.patches->max_patches);
    if (o.patches->width * o.patches->height * o.patches->max_patches > kMostValues)
      throw Error(Error::Kind::kLimit, fmt::format("{} patches of {} x {} pixels", o.patches->max_patches,
                                                   o.patches->width, o.patches->height));
  }
  if (o.image_mean.size() != 3 || o.image_std.size() != 3 ||
      std::any_of(o.image_std.begin(), o.image_std.end(), [](float s) { return !(s > 0); }))
    throw Error(Error::Kind::kInvalidArgument, "image_mean and image_std: expected three numbers each");
}

int64_t floor_half(int64_t x) { return x >= 0 ? x / 2 : -((1 - x) / 2); }

// A part of the picture, or more than it: black where it ends.
Image window(const Image& image, int64_t width, int64_t height, int64_t left, int64_t top) {
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

// Above 0: wider than high; below: higher than wide.
int longer_along(int64_t width, int64_t height) { return (width > height) - (width < height); }

// A quarter turn clockwise.
Image turned(const Image& image) {
  Image out{image.height, image.width, std::vector<uint8_t>(image.pixels.size())};
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x)
      std::copy_n(image.pixels.begin() + ((image.height - 1 - x) * image.width + y) * 3, 3,
                  out.pixels.begin() + (y * out.width + x) * 3);
  return out;
}

// Where what is seen lies in the picture before the turn.
void turn_back(ProcessedImage& seen, const Image& original) {
  const double bottom = static_cast<double>(original.height) - seen.left, left = seen.top;
  seen.left = left;
  seen.top = bottom - seen.width;
  std::swap(seen.width, seen.height);
}

Image thumbnail(const Image& image, int64_t most_width, int64_t most_height) {
  constexpr double kReducingGap = 2;
  int64_t width = std::min(image.width, most_width), height = std::min(image.height, most_height);
  if (width == image.width && height == image.height) return image;
  if (image.height > image.width) {
    width = image.width * height / image.height;
  } else if (image.width > image.height) {
    height = image.height * width / image.width;
  }
  if (width < 1 || height < 1)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("a picture of {} x {} pixels is too narrow", image.width, image.height));
  return resize_in_two_steps(image, width, height, ResizeFilter::kBicubic, kReducingGap);
}

Tensor pixel_values(const Image& image, const ImageProcessorOptions& o) {
  const auto plane = static_cast<size_t>(image.width * image.height);
  Tensor out = Tensor::allocate(DataType::kFloat, {1, 3, image.height, image.width});
  float* values = out.mutable_data<float>();
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < plane; ++i) {
      const double pixel = image.pixels[i * 3 + c];
      auto v = static_cast<float>(o.do_rescale ? pixel * o.rescale_factor : pixel);
      if (o.do_normalize) v = (v - o.image_mean[c]) / o.image_std[c];
      values[c * plane + i] = v;
    }
  return out;
}

}  // namespace

ImageProcessorOptions read_image_processor(const fs::path& folder) {
  constexpr const char* kName = "preprocessor_config.json";
  const fs::path file = configuration_file(folder, kName);
  const auto config = read_json_object(file);
  if (!config) throw Error(Error::Kind::kIo, fmt::format("{}: pictures need it", (folder / kName).string()));
  return within([&] { return file.string(); },
                [&] {
                  ImageProcessorOptions o = options_of(*config);
                  check(o);
                  return o;
                });
}

ProcessedImage process_image(const Image& original, const ImageProcessorOptions& o) {
  check(o);
  if (o.patches) return flattened_patches(original, *o.patches);
  ProcessedImage out;
  Image image = original;
  if (o.do_align_long_axis && longer_along(*o.width, *o.height) * longer_along(image.width, image.height) < 0) {
    image = turned(image);
    out.turned = true;
  }
  const int64_t upright_width = image.width, upright_height = image.height;
  if (o.do_resize) image = resized(image, o);
  if (o.do_thumbnail) image = thumbnail(image, *o.width, *o.height);
  const double x_scale = static_cast<double>(upright_width) / static_cast<double>(image.width);
  const double y_scale = static_cast<double>(upright_height) / static_cast<double>(image.height);
  int64_t left = 0, top = 0;
  if (o.do_pad && (image.width > *o.width || image.height > *o.height))
    throw Error(Error::Kind::kInvalidArgument, fmt::format("a picture of {} x {} pixels can't be padded to {} x {}",
                                                           image.width, image.height, *o.width, *o.height));
  // What can't be halved goes to the right and below when padding, but to the left and above when cropping.
  if (o.do_pad) {
    left = -((*o.width - image.width) / 2);
    top = -((*o.height - image.height) / 2);
    image = window(image, *o.width, *o.height, left, top);
  } else if (o.do_center_crop) {
    left = floor_half(image.width - o.crop_width);
    top = floor_half(image.height - o.crop_height);
    image = window(image, o.crop_width, o.crop_height, left, top);
  }
  out.left = static_cast<double>(left) * x_scale;
  out.top = static_cast<double>(top) * y_scale;
  out.width = static_cast<double>(image.width) * x_scale;
  out.height = static_cast<double>(image.height) * y_scale;
  if (out.turned) turn_back(out, original);
  out.inputs["pixel_values"] = pixel_values(image, o);
  return out;
}

}  // namespace attune
