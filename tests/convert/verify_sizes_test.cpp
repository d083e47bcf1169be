// Inputs are made up in sizes that the source takes.
#include <gtest/gtest.h>

#include "convert/verify.h"
#include "graph/io/text.h"

namespace attune {
namespace {

// Sound (B, T) through a convolution with a window of 40, as the encoders of Wav2vec2 and Moonshine begin.
Model sound_encoder(const std::string& factor) {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T] x) => (float[B,1,F] y) <int64[1] axis = {1}, int64[3] shape = {1, 1, 40}, float f = {)" +
                     factor + R"(}>
    {
      u = Unsqueeze (x, axis)
      w = ConstantOfShape <value = float[1] {0.25}> (shape)
      c = Conv <kernel_shape = [40], strides = [20]> (u, w)
      y = Mul (c, f)
    })");
}

TEST(VerifySizes, SoundIsLongEnoughForTheWindowsOfConvolutions) {
  const Verification v = verify(sound_encoder("2"), sound_encoder("2"), {});
  EXPECT_GE(v.compared, 3U);
  EXPECT_TRUE(v.passed());
}

TEST(VerifySizes, DifferencesOfLongInputsAreFound) {
  EXPECT_FALSE(verify(sound_encoder("2"), sound_encoder("2.1"), {}).passed());
}

TEST(VerifySizes, InputsThatNoLengthHelpsAreRefused) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T] x) => (float[3,4097] y) <int64[2] shape = {3, 4097}> { y = Reshape (x, shape) })";
  const Verification v = verify(parse_model(text), parse_model(text), {});
  EXPECT_EQ(v.compared, 0U);
  EXPECT_FALSE(v.passed());
}

}  // namespace
}  // namespace attune
