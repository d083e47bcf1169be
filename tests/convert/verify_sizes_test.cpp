// Inputs are made up in sizes that the source takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/sample_memory.h"
#include "convert/verify.h"
#include "graph/error.h"
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
  EXPECT_FALSE(v.always_refused) << "others may fit";
}

// y = x + factor m, where the factor is 1 unless one batch is broadcast.
TEST(VerifySizes, BatchesUnderDifferentNamesAreBroadcast) {
  const auto model = [](const std::string& sum) {
    return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, float[M,4] m) => (float[B,4] y) {
      )" + sum + "}");
  };
  const Model source = model("y = Add (x, m)");
  const Verification same = verify(source, source, {});
  EXPECT_TRUE(same.passed());
  EXPECT_EQ(same.compared, 6U) << "sizes that are the same, and either batch 1";
  EXPECT_FALSE(verify(source,
                      model("a = Size (x) b = Size (m) q = Div (a, b) f = Cast <to = 1> (q) g = Mul (m, f) "
                            "y = Add (x, g)"),
                      {})
                   .passed());
}

TEST(VerifySizes, BatchesThatTheSourceDoesNotBroadcastAreNotNoted) {
  const Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, float[M,4] m) => (float[N,8] y, float[B,4] s) { y = Concat <axis = 1> (x, m) s = Add (x, m) })");
  const Verification v = verify(model, model, {});
  EXPECT_TRUE(v.passed());
  EXPECT_EQ(v.compared, v.cases.size());
}

// A `fault` at every size; three dynamic sizes, and six numbers that an export may have fixed.
Model faulty(const std::string& type, const std::string& fault) {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[A,B,C] x) => ()" +
                     type + R"( y, int64[6] q)
    <int64[1] s1 = {3}, int64[1] s2 = {5}, int64[1] s3 = {7}, int64[1] s4 = {11}, int64[1] s5 = {13},
     int64[1] s6 = {17}, int64[3] shape = {3, 4099, 2}>
    {
      q = Concat <axis = 0> (s1, s2, s3, s4, s5, s6)
      )" + fault + R"(
    })");
}

// They are the same for all inputs.
bool cannot_run(const Model& model) { return verify(model, model, {}).always_refused.has_value(); }

size_t tries_until_refused(const Model& model, const VerifyOptions& options) {
  const Verification v = verify(model, model, options);
  EXPECT_EQ(v.compared, 0U);
  EXPECT_FALSE(v.passed());
  EXPECT_FALSE(v.cases.empty());
  return v.tried;
}

// Four kinds of sizes, and each once more with all sizes the same.
constexpr size_t kUsualTries = 8;

TEST(VerifySizes, FaultsOfTypesEndTheSearchAtOnce) {
  const Model model =
      faulty("bool[A,B,B]", "b = Cast <to = 9> (x) t = Transpose <perm = [0, 2, 1]> (b) y = MatMul (b, t)");
  EXPECT_LE(tries_until_refused(model, {}), kUsualTries);
  EXPECT_TRUE(cannot_run(model));
}

TEST(VerifySizes, FaultsOfConstantsEndTheSearchAtOnce) {
  // Number nine of seven features, whatever the dynamic sizes are.
  const Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[A,B,C] x, float[7] f) => (float[1] y, float[A,B,C] z) <int64[1] number = {9}> {
      z = Relu (x)
      y = Gather (f, number)
    })");
  EXPECT_LE(tries_until_refused(model, {}), kUsualTries);
  EXPECT_TRUE(cannot_run(model));
}

TEST(VerifySizes, TheSearchForSizesEnds) {
  const Model model = faulty("float[3,4099,2]", "y = Reshape (x, shape)");
  VerifyOptions options;
  options.search_seconds = 1e9;
  EXPECT_GT(tries_until_refused(model, options), 100U);
  options.search_seconds = 0;
  EXPECT_LE(tries_until_refused(model, options), kUsualTries);
}

TEST(VerifySizes, MemoryIsThatOfValuesHeldAtOnce) {
  const Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,1000] x) => (float[B,B] y) {
      a = Exp (x)
      b = Relu (a)
      t = Transpose (b)
      y = MatMul (b, t)
    })");
  const auto inputs = sample_inputs(model);
  SampleChoice choice;
  choice.sizes["B"] = 3;
  // x, b and t of 3 * 1000 numbers of 4 bytes, and y of 9.
  EXPECT_EQ(SampleMemory(model).peak(inputs, choice), 3 * 12000 + 36);
  choice.sizes["B"] = 1 << 20;  // y alone: 4 TiB
  EXPECT_THROW(SampleMemory(model).check(inputs, choice), Error);
}

TEST(VerifySizes, HugeDeclaredSizesAreRefusedBeforeMemoryIsTaken) {
  const Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,1048576] x) => (float[B,1048576,1048576] y) <int64[1] one = {1}, int64[1] two = {2}> {
      a = Unsqueeze (x, one)
      b = Unsqueeze (x, two)
      y = Mul (a, b)
    })");
  const Verification v = verify(model, model, {});
  EXPECT_EQ(v.compared, 0U);
  EXPECT_FALSE(v.always_refused) << "the model may run";
  ASSERT_FALSE(v.cases.empty());
  for (const VerifiedCase& c : v.cases)
    EXPECT_THAT(c.refused, testing::AllOf(testing::HasSubstr("GiB"), testing::HasSubstr("--no-verify")));
}

}  // namespace
}  // namespace attune
