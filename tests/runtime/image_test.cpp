// Pictures. Expected pixels: Pillow; expected values: transformers' image processors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "graph/io/npy.h"
#include "runtime/image/image_file.h"
#include "runtime/image/processor.h"
#include "runtime/image/resize.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data";

// Recorded by tests/runtime/data/make_images.py.
const NamedTensors& expected() {
  static const NamedTensors tensors = read_npz(kData / "images.npz");
  return tensors;
}

// (height, width, 3), uint8.
Image image_of(const Tensor& t) {
  const auto values = t.to_int64();
  return {t.dim(1), t.dim(0), {values.begin(), values.end()}};
}

void expect_pixels(const Image& actual, const std::string& name) {
  const Image wanted = image_of(expected().at(name));
  EXPECT_EQ(actual.width, wanted.width) << name;
  EXPECT_EQ(actual.height, wanted.height) << name;
  EXPECT_EQ(actual.pixels, wanted.pixels) << name;
}

// The tolerance: a few roundings in single precision, and for values that PyTorch resamples in it some more.
void expect_values(const Tensor& actual, const Tensor& wanted, const std::string& name) {
  const float tolerance = name.find("flattened_patches") == std::string::npos ? 1e-6F : 2e-6F;
  ASSERT_EQ(actual.shape().to_string(), wanted.shape().to_string()) << name;
  for (size_t i = 0; i < static_cast<size_t>(wanted.count()); ++i)
    ASSERT_NEAR(actual.data<float>()[i], wanted.data<float>()[i],
                tolerance * std::max(1.0F, std::abs(wanted.data<float>()[i])))
        << name << " at " << i;
}

TEST(ReadImage, PngOfAllKindsAndJpegAsPillow) {
  size_t files = 0;
  for (const auto& [name, pixels] : expected()) {
    if (!name.starts_with("file ")) continue;
    expect_pixels(read_image(kData / "images" / name.substr(5)), name);
    ++files;
  }
  EXPECT_GE(files, 8U);
}

TEST(ReadImage, WrongFilesSayWhich) {
  const test::TemporaryFolder folder;
  const auto error = [&](const fs::path& file) {
    try {
      read_image(file);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(folder / "none.png"), testing::HasSubstr("none.png"));
  EXPECT_THAT(error(folder.write("x.png", "GIF89a")), testing::HasSubstr("neither PNG nor JPEG"));
  for (const std::string name : {"rgb.png", "rgb.jpg"}) {
    const std::string whole = test::read_file(kData / "images" / name);
    for (const size_t size : {size_t{9}, size_t{40}, whole.size() / 4})
      EXPECT_THAT(error(folder.write(name, whole.substr(0, size))), testing::HasSubstr(name)) << size;
  }
  std::string huge = test::read_file(kData / "images/rgb.png");
  huge.replace(16, 8, std::string("\x00\x0f\x00\x00\x00\x0f\x00\x00", 8));  // the header's width and height
  EXPECT_NE(error(folder.write("huge.png", huge)), "");
}

TEST(Resize, EqualsPillowBitForBit) {
  size_t sizes = 0;
  for (const auto& [name, pixels] : expected()) {
    if (!name.starts_with("resize ")) continue;
    const int filter = name.at(7) - '0';
    expect_pixels(
        resize(image_of(expected().at("picture")), pixels.dim(1), pixels.dim(0), static_cast<ResizeFilter>(filter)),
        name);
    ++sizes;
  }
  EXPECT_GE(sizes, 18U);
}

TEST(Resize, InTwoStepsEqualsPillowBitForBit) {
  size_t sizes = 0;
  for (const auto& [name, pixels] : expected()) {
    if (!name.starts_with("reduce ")) continue;
    const auto filter = static_cast<ResizeFilter>(name.at(7) - '0');
    const double gap = std::stod(name.substr(name.rfind(' ')));
    expect_pixels(resize_in_two_steps(image_of(expected().at("picture")), pixels.dim(1), pixels.dim(0), filter, gap),
                  name);
    ++sizes;
  }
  EXPECT_GE(sizes, 20U);
}

TEST(ProcessImage, EqualsTransformersProcessors) {
  const test::TemporaryFolder folder;
  size_t configurations = 0;
  for (const auto& [name, values] : expected()) {
    if (!name.starts_with("process ")) continue;
    const size_t blank = name.find(' ', 8);
    const std::string input = name.substr(8, blank - 8);
    folder.write("preprocessor_config.json", name.substr(blank + 1));
    const ProcessedImage processed =
        process_image(image_of(expected().at("picture")), read_image_processor(folder.path()));
    ASSERT_TRUE(processed.inputs.contains(input)) << name;
    expect_values(processed.inputs.at(input).tensor(), values, name);
    ++configurations;
  }
  EXPECT_GE(configurations, 30U);
}

TEST(ProcessImage, APlainPictureHasNoDeviation) {
  ImageProcessorOptions o;
  o.patches = FlattenedPatches{2, 2, 6};
  const ProcessedImage p = process_image({10, 10, std::vector<uint8_t>(300, 9)}, o);
  expect_values(p.inputs.at("flattened_patches").tensor(), expected().at("plain"), "plain");
}

TEST(ProcessImage, SaysWhatIsSeenOfThePicture) {
  ImageProcessorOptions o;
  o.width = o.height = std::nullopt;
  o.shortest_edge = 10;
  o.do_center_crop = true;
  o.crop_width = o.crop_height = 8;
  const ProcessedImage p = process_image({40, 20, std::vector<uint8_t>(2400)}, o);  // resized to 20 x 10
  EXPECT_EQ(p.left, 12);
  EXPECT_EQ(p.top, 2);
  EXPECT_EQ(p.width, 16);
  EXPECT_EQ(p.height, 16);
  EXPECT_FALSE(p.turned);
}

TEST(ProcessImage, SaysWhatIsSeenOfATurnedPicture) {
  ImageProcessorOptions o;
  o.do_align_long_axis = o.do_thumbnail = o.do_pad = true;
  o.width = 10;
  o.height = 30;
  o.shortest_edge = 10;
  const ProcessedImage p = process_image({40, 20, std::vector<uint8_t>(2400)}, o);  // 20 x 40 to 10 x 20, 5 above
  EXPECT_TRUE(p.turned);
  EXPECT_EQ(p.left, -10);
  EXPECT_EQ(p.top, 0);
  EXPECT_EQ(p.width, 60);
  EXPECT_EQ(p.height, 20);
}

TEST(ProcessImage, WrongConfigurations) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(read_image_processor(folder.path()), Error);
  for (const std::string text :
       {"[]", R"({"size": 0})", R"({"size": "large"})", R"({"resample": 9})", R"({"image_std": [1, 1]})",
        R"({"image_std": [1, 0, 1]})", R"({"image_processor_type": "NougatImageProcessor"})",
        R"({"image_processor_type": "DonutImageProcessor", "size": {"shortest_edge": 9}})",
        R"({"image_processor_type": "Pix2StructImageProcessor", "is_vqa": true})",
        R"({"image_processor_type": "Pix2StructImageProcessor", "do_normalize": false})",
        R"({"image_processor_type": "Pix2StructImageProcessor", "patch_size": 16})",
        R"({"image_processor_type": "Pix2StructImageProcessor", "max_patches": 0})", R"({"size": {"longest_edge": 5}})",
        R"({"size": {"height": 100000, "width": 5}})"}) {
    folder.write("preprocessor_config.json", text);
    EXPECT_THROW(read_image_processor(folder.path()), Error) << text;
  }
  for (const auto& [text, name] : {std::pair(R"({"do_resize": "yes"})", "do_resize: "),
                                   {R"({"size": [1, "2"]})", "size: "},
                                   {R"({"crop_size": {"width": 5}, "do_resize": true})", "crop_size: "},
                                   {R"({"image_std": ["a"]})", "image_std: "}}) {
    folder.write("preprocessor_config.json", text);
    EXPECT_THAT(test::error_of([&] { read_image_processor(folder.path()); }), testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace attune
