// Conversions of real exporters' models to each target are verified: there are made-up inputs that the source takes,
// and the result agrees. The models are those of tests/models, or of the folder that ATTUNE_ZOO names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "convert/convert.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

fs::path zoo() {
  const char* folder = std::getenv("ATTUNE_ZOO");
  return folder && *folder ? fs::path(folder) : fs::path(ATTUNE_SOURCE_DIR) / "tests/models";
}

std::vector<std::string> models() {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(zoo()))
    if (entry.path().extension() == ".onnx") out.push_back(fs::relative(entry.path(), zoo()).string());
  std::sort(out.begin(), out.end());
  return out;
}

class VerifiedZoo : public testing::TestWithParam<std::string> {};

TEST_P(VerifiedZoo, ForEachTarget) {
  for (const Target target : {Target::kAttune, Target::kPortable, Target::kOnnx}) {
    SCOPED_TRACE(static_cast<int>(target));
    const test::TemporaryFolder folder;
    ConvertOptions options;
    options.target = target;
    const Conversion c = convert(zoo() / GetParam(), folder / "converted.onnx", options);
    EXPECT_TRUE(c.written);
    EXPECT_GE(c.models.at(0).verification->compared, 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(, VerifiedZoo, testing::ValuesIn(models()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace attune
