// Sound files and features. Expected features: transformers' WhisperFeatureExtractor and Speech2TextFeatureExtractor.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include <fstream>
#include <numbers>

#include "graph/io/npy.h"
#include "runtime/audio/audio_file.h"
#include "runtime/audio/features.h"
#include "tests/support/error_matchers.h"
#include "tests/support/sound.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data";

double largest_difference(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const auto a = actual.to_double(), b = expected.to_double();
  double d = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

class Features : public testing::Test {
 protected:
  NamedTensors expected_ = read_npz(kData / "audio_features.npz");
  AudioFeatureOptions options_;
  std::vector<float> signal_ = test::made_up_sound(8077);
};

TEST_F(Features, WhisperOf80And128Bands) {
  for (const int64_t bands : {80, 128}) {
    options_.feature_size = bands;
    const Tensor f = audio_features(signal_, options_);
    // Expected by transformers in NumPy, whose FFT is in double precision as ours.
    EXPECT_LT(largest_difference(f, expected_.at(fmt::format("whisper_{}", bands))), 2e-6) << bands;
  }
}

TEST_F(Features, WhisperOfSilenceBehindTheSound) {
  auto samples = signal_;
  samples.resize(30 * 16000, 0);
  const Tensor f = audio_features(samples, options_);
  ASSERT_EQ(f.shape().to_string(), Shape({1, 80, 3000}).to_string());
  Tensor head = Tensor::allocate(DataType::kFloat, {1, 80, 55});
  for (size_t b = 0; b < 80; ++b) std::copy_n(f.data<float>() + b * 3000, 55, head.mutable_data<float>() + b * 55);
  EXPECT_LT(largest_difference(head, expected_.at("whisper_80_padded_head")), 2e-6);
}

TEST_F(Features, KaldiWithAndWithoutNormalisation) {
  options_.kind = AudioFeatureKind::kKaldi;
  EXPECT_LT(largest_difference(audio_features(signal_, options_), expected_.at("kaldi_normalized")), 1e-4);
  options_.normalize_means = options_.normalize_vars = false;
  EXPECT_LT(largest_difference(audio_features(signal_, options_), expected_.at("kaldi")), 1e-4);
}

TEST_F(Features, TooShort) {
  EXPECT_THROW(audio_features(std::vector<float>(100), options_), Error);
  options_.kind = AudioFeatureKind::kKaldi;
  EXPECT_THROW(audio_features(std::vector<float>(399), options_), Error);
}

TEST_F(Features, OptionsOfAFolder) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& json) {
    std::ofstream(folder / "preprocessor_config.json") << json;
    return read_audio_feature_options(folder.path());
  };
  EXPECT_EQ(read(R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128})").feature_size, 128);
  const auto kaldi =
      read(R"({"feature_extractor_type": "Speech2TextFeatureExtractor", "num_mel_bins": 40, "normalize_vars": false})");
  EXPECT_EQ(kaldi.kind, AudioFeatureKind::kKaldi);
  EXPECT_EQ(kaldi.feature_size, 40);
  EXPECT_TRUE(kaldi.normalize_means);
  EXPECT_FALSE(kaldi.normalize_vars);
  EXPECT_THROW(read(R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})"), Error);
  EXPECT_THAT(test::error_of([&] { read(R"({"n_fft": "400"})"); }), testing::HasSubstr("config.json: n_fft: "));
  std::filesystem::remove(folder / "preprocessor_config.json");
  std::filesystem::create_directory(folder / "preprocessor_config.json");
  EXPECT_THAT(test::error_of([&] { read_audio_feature_options(folder.path()); }),
              testing::HasSubstr("config.json: expected a file, found a directory"));
  std::filesystem::remove(folder / "preprocessor_config.json");
  EXPECT_THROW(read(R"({"hop_length": 0})"), Error);
  EXPECT_THROW(read("["), Error);
}

void append(std::string& bytes, uint32_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

// A canonical WAV file: format 1 (integers) or 3 (floats).
std::string wav(uint32_t format, uint32_t channels, uint32_t rate, uint32_t bits, const std::string& data) {
  std::string out = "RIFF";
  append(out, static_cast<uint32_t>(36 + data.size()), 4);
  out += "WAVEfmt ";
  append(out, 16, 4);
  append(out, format, 2);
  append(out, channels, 2);
  append(out, rate, 4);
  append(out, rate * channels * bits / 8, 4);
  append(out, channels * bits / 8, 2);
  append(out, bits, 2);
  out += "data";
  append(out, static_cast<uint32_t>(data.size()), 4);
  return out + data;
}

class Files : public testing::Test {
 protected:
  fs::path write(const std::string& bytes) {
    std::ofstream(folder_ / "x.wav", std::ios::binary) << bytes;
    return folder_ / "x.wav";
  }
  test::TemporaryFolder folder_;
};

TEST_F(Files, IntegersOf16BitsAndSeveralChannels) {
  std::string data;
  for (const int v : {16384, -16384, -32768, 0, 8192, 24576}) append(data, static_cast<uint32_t>(v), 2);
  const Audio mono = read_audio(write(wav(1, 1, 8000, 16, data)));
  EXPECT_EQ(mono.sampling_rate, 8000);
  EXPECT_THAT(mono.samples, testing::ElementsAre(0.5F, -0.5F, -1.0F, 0.0F, 0.25F, 0.75F));
  const Audio stereo = read_audio(write(wav(1, 2, 8000, 16, data)));
  EXPECT_THAT(stereo.samples, testing::ElementsAre(0.0F, -0.5F, 0.5F));
}

TEST_F(Files, FloatsAndBytes) {
  std::string data;
  for (const float v : {0.1F, -0.25F}) append(data, std::bit_cast<uint32_t>(v), 4);
  EXPECT_THAT(read_audio(write(wav(3, 1, 16000, 32, data))).samples, testing::ElementsAre(0.1F, -0.25F));
  EXPECT_THAT(read_audio(write(wav(1, 1, 16000, 8, std::string("\x80\xC0", 2)))).samples,
              testing::ElementsAre(0.0F, 0.5F));
}

std::string error_of(const fs::path& file) {
  try {
    read_audio(file);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

// With a chunk before the sound, whose size is odd and is followed by a byte that fills up.
TEST_F(Files, TruncatedSound) {
  const std::string whole = wav(1, 1, 16000, 16, std::string(8, '\x01'));
  const std::string truncated = whole.substr(0, whole.size() - 3);
  EXPECT_THAT(error_of(write(truncated)), testing::HasSubstr("x.wav: truncated: holds 5 of the 8 bytes"));
  const std::string note("note\3\0\0\0abc\0", 12);
  EXPECT_EQ(read_audio(write(whole.substr(0, 36) + note + whole.substr(36))).samples.size(), 4U);
  EXPECT_THAT(error_of(write(truncated.substr(0, 36) + note + truncated.substr(36))), testing::HasSubstr("5 of the 8"));
}

TEST_F(Files, BigEndianFormsTruncated) {
  const std::string sound(8, '\x01');
  const std::string au = std::string(".snd\0\0\0\x18\0\0\0\x08\0\0\0\x03\0\0\x3e\x80\0\0\0\1", 24) + sound;
  EXPECT_EQ(read_audio(write(au)).samples.size(), 4U);
  EXPECT_THAT(error_of(write(au.substr(0, 30))), testing::HasSubstr("holds 6 of the 8 bytes"));
  const std::string aiff = std::string(
                               "FORM\0\0\0\x36"
                               "AIFFCOMM\0\0\0\x12\0\1\0\0\0\4\0\x10\x40\x0c\xfa\0\0\0\0\0\0\0",
                               38) +
                           std::string("SSND\0\0\0\x10\0\0\0\0\0\0\0\0", 16) + sound;
  EXPECT_EQ(read_audio(write(aiff)).samples.size(), 4U);
  EXPECT_THAT(error_of(write(aiff.substr(0, aiff.size() - 2))), testing::HasSubstr("holds 6 of the 8 bytes"));
}

TEST_F(Files, Wave64Truncated) {
  const auto chunk = [](const std::string& name, const std::string& guid, uint32_t size) {
    std::string bytes = name + guid;
    append(bytes, size, 4);
    append(bytes, 0, 4);
    return bytes;
  };
  const std::string guid("\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a", 12);
  std::string format;
  for (const auto& [value, width] : {std::pair{1, 2}, {1, 2}, {16000, 4}, {32000, 4}, {2, 2}, {16, 2}})
    append(format, static_cast<uint32_t>(value), width);
  const std::string head = chunk("riff", std::string("\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00", 12), 144) +
                           "wave" + guid + chunk("fmt ", guid, 40) + format;
  const std::string note = chunk("junk", guid, 27) + std::string("abc\0\0\0\0\0", 8);
  const std::string sound = chunk("data", guid, 32) + std::string(8, '\x01');
  for (const std::string& before : {head, head + note}) {
    EXPECT_EQ(read_audio(write(before + sound)).samples.size(), 4U);
    EXPECT_THAT(error_of(write(before + sound.substr(0, sound.size() - 2))),
                testing::HasSubstr("x.wav: truncated: holds 6 of the 8 bytes"));
  }
}

// Sizes that programs write into a pipe, where they can't return to correct them.
TEST_F(Files, StreamsOfUnknownSize) {
  for (const uint32_t size : {0xFFFFFFFFU, 0x7FFFF000U, 0x80000000U}) {
    std::string bytes = wav(1, 1, 16000, 16, std::string(8, '\x01')), number;
    append(number, size, 4);
    bytes.replace(40, 4, number);
    EXPECT_EQ(read_audio(write(bytes)).samples.size(), 4U) << size;
  }
}

TEST_F(Files, SamplingRatesNobodyRecordsAt) {
  const std::string sound(3200, '\x01');
  for (const uint32_t rate : {2U, 999U, 1000001U, 2147483647U})
    EXPECT_THAT(
        error_of(write(wav(1, 1, rate, 16, sound))),
        testing::HasSubstr(fmt::format("x.wav: expected a sampling rate of 1000 to 1000000 Hz, found {}", rate)));
  for (const uint32_t rate : {1000U, 1000000U})
    EXPECT_EQ(read_audio(write(wav(1, 1, rate, 16, sound))).samples.size(), 1600U) << rate;
}

TEST_F(Files, WrongFilesSayWhich) {
  EXPECT_THAT(error_of(folder_ / "none.wav"), testing::HasSubstr("none.wav"));
  EXPECT_THAT(error_of(write("RIFFnonsense")), testing::HasSubstr("x.wav"));
  EXPECT_THAT(error_of(write(wav(1, 1, 16000, 16, ""))), testing::HasSubstr("no sound"));
  EXPECT_THAT(error_of(write(wav(3, 1, 16000, 32, "\xff\xff\xff\x7f"))), testing::HasSubstr("no number"));
}

// A tone stays what it is, and what can't be told at the lower rate goes.
TEST(Resample, KeepsTonesAndDropsAliases) {
  const auto tone = [](double hertz, double rate, size_t n) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i)
      x[i] = static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
    return x;
  };
  for (const double rate : {8000.0, 22050.0, 44100.0, 48000.0}) {
    const auto out = resample(tone(1000, rate, static_cast<size_t>(rate)), static_cast<int64_t>(rate), 16000);
    ASSERT_EQ(out.size(), 16000U) << rate;
    const auto expected = tone(1000, 16000, 16000);
    for (size_t i = 1000; i < 15000; ++i) ASSERT_NEAR(out[i], expected[i], 1e-3) << rate << " " << i;
  }
  const auto gone = resample(tone(12000, 48000, 48000), 48000, 16000);
  for (size_t i = 1000; i < 15000; ++i) ASSERT_NEAR(gone[i], 0, 1e-3) << i;
}

TEST(Resample, SoundOfLessThanASampleIsNone) {
  EXPECT_TRUE(resample(std::vector<float>(3, 0.5F), 1000000, 16000).empty());
  EXPECT_THROW(resample(std::vector<float>(3, 0.5F), 16000, 2147483647), Error);
  EXPECT_THROW(resample(std::vector<float>(3, 0.5F), 0, 16000), Error);
}

}  // namespace
}  // namespace attune
