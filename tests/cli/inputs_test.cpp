// attune generate from text of files and pipes, from sound and from pictures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/io/npy.h"
#include "tests/support/program.h"
#include "tests/support/sound.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;
using test::Outcome;
using test::run_attune;

const fs::path kRoot = ATTUNE_SOURCE_DIR;
const std::string kTranslator = (kRoot / "examples/translate/models/gru").string();
const std::string kWhisper = (kRoot / "tests/runtime/data/whisper").string();
const std::string kTrocr = (kRoot / "tests/runtime/data/trocr").string();

std::vector<std::string> sentences(size_t count) {
  std::ifstream in(kRoot / "examples/translate/heldout.tsv");
  std::vector<std::string> out;
  for (std::string line; out.size() < count && std::getline(in, line);) out.push_back(line.substr(0, line.find('\t')));
  return out;
}

class Lines : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> arguments{"generate", kTranslator};
    std::string text;
    for (const std::string& s : sentences(9)) {
      arguments.insert(arguments.end(), {"--text", s});
      text += s + "\n";
    }
    file_ = folder_.write("in.txt", text).string();
    expected_ = run_attune(arguments).out;
    EXPECT_EQ(std::count(expected_.begin(), expected_.end(), '\n'), 9);
  }
  test::TemporaryFolder folder_;
  std::string file_, expected_;
};

TEST_F(Lines, OfFilesInBatchesOfAnySizeComeInOrder) {
  for (const char* batch : {"1", "2", "4", "100"})
    EXPECT_EQ(run_attune({"generate", kTranslator, "--input", file_, "--batch", batch}).out, expected_) << batch;
}

TEST_F(Lines, OfPipes) {
  const std::string command =
      fmt::format("cat {} | {} generate {} --input - 2>&1", test::quoted(file_),
                  test::quoted(std::string(ATTUNE_BINARY_DIR) + "/attune"), test::quoted(kTranslator));
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(out, expected_);
}

TEST_F(Lines, EmptyOnesStayAndWindowsEndsGo) {
  const std::string text = sentences(1)[0];
  const auto file = folder_.write("gaps.txt", "\n" + text + "\r\n\n" + text).string();
  const std::string one = run_attune({"generate", kTranslator, "--text", text}).out;
  EXPECT_EQ(run_attune({"generate", kTranslator, "--input", file}).out, "\n" + one + "\n" + one);
  EXPECT_EQ(run_attune({"generate", kTranslator, "--input", file, "--stream"}).out, "\n" + one + "\n" + one);
}

TEST_F(Lines, AByteOrderMarkIsNoPartOfTheFirst) {
  const std::string mark = "\xef\xbb\xbf", text = sentences(1)[0];
  const std::string one = run_attune({"generate", kTranslator, "--text", text}).out;
  const auto file = folder_.write("marked.txt", mark + text + "\n" + text).string();
  EXPECT_EQ(run_attune({"generate", kTranslator, "--input", file}).out, one + one);
  EXPECT_EQ(run_attune({"generate", kTranslator, "--input", file, "--stream"}).out, one + one);
  const auto empty = folder_.write("empty.txt", mark + "\r\n" + text).string();
  EXPECT_EQ(run_attune({"generate", kTranslator, "--input", empty}).out, "\n" + one);

  const auto ids = [&](const std::string& before) { return folder_.write("text.ids", before + "5 6\n").string(); };
  const std::string plain = run_attune({"generate", kTranslator, "--ids", ids("")}).out;
  EXPECT_FALSE(plain.empty());
  EXPECT_EQ(run_attune({"generate", kTranslator, "--ids", ids(mark)}).out, plain);

  const auto diagnosis = [&](const std::string& contents) {
    const auto input = folder_.write("d.txt", contents).string();
    return run_attune({"diagnose", kTranslator, "--json", "--no-regime", "--input", input}).out;
  };
  const std::string expected = diagnosis(text + "\n" + text + "\n");
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(diagnosis(mark + text + "\r\n" + text + "\r\n"), expected);
}

// Positions of the transformer end at 64.
TEST_F(Lines, WhatComesBeforeABadOneIsGivenAndTheLineNamed) {
  const std::string model = (kRoot / "examples/translate/models/transformer").string();
  const auto words = sentences(2);
  std::string too_long;
  for (int i = 0; i < 100; ++i) too_long += words[0] + " ";
  const std::string file = folder_.write("bad.txt", words[0] + "\n" + too_long + "\n" + words[1] + "\n").string();
  const std::string first = run_attune({"generate", model, "--text", words[0]}).out;
  for (const std::vector<std::string>& how : {std::vector<std::string>{}, {"--batch", "1"}, {"--stream"}}) {
    std::vector<std::string> arguments{"generate", model, "--input", file};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Outcome outcome = run_attune(arguments);
    expect_error(outcome, "bad.txt > line 2");
    EXPECT_EQ(outcome.out, first);
  }
}

TEST_F(Lines, EmptyOnesGiveAsManyLinesAsOthers) {
  const std::string file = folder_.write("gap.txt", sentences(1)[0] + "\n\n").string();
  const std::string out =
      run_attune({"generate", kTranslator, "--input", file, "--beams", "2", "--set", "num_return_sequences=2"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4);
  EXPECT_TRUE(out.ends_with("\n\n\n"));
}

TEST_F(Lines, StreamedTextIsTheSame) {
  for (const char* beams : {"1", "3"}) {
    std::vector<std::string> arguments{"generate", kTranslator, "--beams", beams, "--input", file_};
    const std::string all = run_attune(arguments).out;
    arguments.push_back("--stream");
    EXPECT_EQ(run_attune(arguments).out, all) << beams;
  }
}

TEST_F(Lines, AFullDisk) {
  for (const char* how : {"--json", "--stream"})
    expect_error(run_attune({"generate", kTranslator, "--input", file_, how}, "/dev/full"),
                 "can't write to standard output");
  expect_error(run_attune({"generate", kTranslator, "--input", file_}, "/dev/full"), "can't write to standard output");
}

TEST_F(Lines, AsJson) {
  const Outcome outcome = run_attune({"generate", kTranslator, "--input", file_, "--json", "--beams", "2"});
  std::istringstream in(outcome.out);
  size_t count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    const json j = json::parse(line);
    EXPECT_EQ(j["input"], sentences(9)[count]);
    EXPECT_EQ(j["texts"].size(), 1U);
    EXPECT_EQ(j["scores"].size(), 1U);
  }
  EXPECT_EQ(count, 9U);
}

TEST(Inputs, OptionsThatWouldDoNothing) {
  const auto refused = [](std::vector<std::string> options, const std::string& message) {
    options.insert(options.begin(), {"generate", kTranslator, "--text", "x"});
    expect_error(run_attune(options), message);
  };
  refused({"--alignments"}, "--json");
  refused({"--alignment-layers", "0"}, "--alignment-layers");
  refused({"--alignment-heads", "0"}, "--alignment-heads");
}

// Models that take each sound as a whole have no windows, times, languages or tasks.
TEST(Inputs, OptionsOfWhisperForOtherModels) {
  const test::TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"feature_extractor_type": "Speech2TextFeatureExtractor"})");
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--subtitles", "s.srt"}, {"--word-timestamps"}, {"--language", "fr"}, {"--temperatures", "0,1"}}) {
    std::vector<std::string> arguments{"generate", folder.path().string(), "--audio", "x.wav"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_error(run_attune(arguments), options[0] + ": expected a Whisper model");
  }
}

TEST(Inputs, AlignmentsAreDrawnOfWhatIsStreamed) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> arguments{"generate", kTranslator, "--text", "le chat noir dort", "--show-alignment"};
  auto streamed = arguments;
  streamed.push_back("--stream");
  const Outcome outcome = run_attune(streamed);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, run_attune(arguments).out);
}

TEST(Inputs, OutputsThatCantBeWrittenAreFoundBeforeTheRun) {
  const Outcome outcome = run_attune({"generate", kTranslator, "--text", "x", "--alignment", "/missing/a.svg"});
  expect_error(outcome, "/missing/a.svg");
  EXPECT_EQ(outcome.out, "");
  expect_error(run_attune({"generate", kWhisper, "--audio", "none.wav", "--subtitles", "/missing/a.srt"}),
               "/missing/a.srt");
}

TEST(Inputs, WhatDoesntGoTogether) {
  expect_error(run_attune({"generate", kTranslator}), "--audio");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--input", "b"}), "expected one of");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--stream", "--json"}), "--stream");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--batch", "4"}), "--batch requires --input");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--language", "de"}), "--language requires --audio");
  expect_error(run_attune({"generate", kTranslator, "--input", "/none"}), "/none");
  expect_error(run_attune({"generate", kTranslator, "--input", kTranslator}), "can't be opened");
  expect_error(run_attune({"generate", kTranslator, "--request", kTranslator}), kTranslator + ": expected a file");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--set", "num_beams=abc"}),
               "num_beams: expected a whole number, found \"abc\"");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--set", "do_sample=1"}), "expected true or false");
  expect_error(run_attune({"generate", kTranslator, "--text", "a", "--set", "suppress_tokens=2"}),
               "expected a list of whole numbers");
  expect_error(run_attune({"generate", kTranslator, "--image", "x.png"}), "preprocessor_config.json");
  expect_error(run_attune({"generate", kTranslator, "--audio", "x.wav"}), "preprocessor_config.json");
}

TEST(Inputs, ValuesThatMakeNoSense) {
  const auto error = [](const std::string& option, const std::string& value, const std::string& message) {
    const Outcome outcome = run_attune({"generate", kTranslator, "--text", "le chat noir dort", option, value});
    expect_error(outcome, message);
    EXPECT_EQ(outcome.out, "") << "it is seen before anything is generated";
  };
  error("--beams", "0", "--beams: expected at least 1, got 0");
  error("--max-new", "-3", "--max-new");
  error("--threads", "-1", "--threads");
  error("--alignment", "a.bmp", "a.bmp");
  error("--set", "num_beams", "NAME=VALUE");
  error("--set", "num_beam=2", "num_beam:");
  error("--set", "top_p=2", "top_p");
}

TEST(Inputs, BatchesBeyondReason) {
  for (const char* batch : {"2305843009213693952", "65537", "0", "-1"}) {
    expect_error(run_attune({"generate", kTranslator, "--input", "x.txt", "--batch", batch}), "--batch");
    if (batch != std::string("0"))
      expect_error(run_attune({"bench", kTranslator, "--source-ids", "x.txt", "--batch", batch}), "--batch");
  }
}

TEST(Inputs, SettingsByName) {
  const Outcome outcome = run_attune({"generate", kTranslator, "--text", "le chat noir dort", "--set", "num_beams=3",
                                      "--set", "num_return_sequences=2", "--set", "length_penalty=0.5", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["texts"].size(), 2U);
}

// 32-bit floats, one channel, 16 kHz.
std::string wav(const std::vector<float>& samples) {
  std::string out;
  const auto number = [&](uint32_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
  };
  const auto bytes = static_cast<uint32_t>(samples.size() * 4);
  out += "RIFF";
  number(36 + bytes, 4);
  out += "WAVEfmt ";
  for (const auto& [value, size] : {std::pair{16U, 4}, {3U, 2}, {1U, 2}, {16000U, 4}, {64000U, 4}, {4U, 2}, {32U, 2}})
    number(value, static_cast<size_t>(size));
  out += "data";
  number(bytes, 4);
  for (const float s : samples) number(std::bit_cast<uint32_t>(s), 4);
  return out;
}

class Sound : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream in(kRoot / "tests/runtime/data/whisper/expected.json");
    expected_ = json::parse(in)["timestamps"];
    file_ = folder_.write("x.wav", wav(test::made_up_sound(expected_["samples"]))).string();
  }
  test::TemporaryFolder folder_;
  json expected_;
  std::string file_;
};

TEST_F(Sound, AsJsonWithTimes) {
  const Outcome outcome = run_attune(
      {"generate", kWhisper, "--audio", file_, "--language", "en", "--timestamps", "--word-timestamps", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json j = json::parse(outcome.out);
  EXPECT_EQ(j["language"], "en");
  ASSERT_EQ(j["segments"].size(), expected_["segments"].size());
  for (size_t i = 0; i < j["segments"].size(); ++i) {
    EXPECT_EQ(j["segments"][i]["tokens"], expected_["segments"][i]["tokens"]);
    EXPECT_NEAR(j["segments"][i]["start"].get<double>(), expected_["segments"][i]["start"].get<double>(), 1e-3);
    EXPECT_TRUE(j["segments"][i].contains("words"));
  }
}

TEST_F(Sound, AsTextAndStreamed) {
  const std::vector<std::string> arguments{"generate", kWhisper, "--audio", file_, "--language", "en", "--timestamps"};
  const std::string text = run_attune(arguments).out;
  EXPECT_THAT(text, testing::HasSubstr("[00:00.220 --> 00:01.080]"));
  auto streamed = arguments;
  streamed.push_back("--stream");
  EXPECT_EQ(run_attune(streamed).out, text);
}

TEST_F(Sound, AlignmentOverSeconds) {
  const auto picture = (folder_ / "a.json").string();
  ASSERT_EQ(
      run_attune({"generate", kWhisper, "--audio", file_, "--language", "en", "--timestamps", "--alignment", picture})
          .code,
      0);
  const json j = json::parse(test::read_file(picture));
  EXPECT_EQ(j["columns"][0], "0.00 s");
  EXPECT_EQ(j["columns"].size(), 62U);  // 1.25 s in steps of 20 ms
  size_t tokens = 0;
  for (const json& s : expected_["segments"]) tokens += s["tokens"].size();
  EXPECT_EQ(j["rows"].size(), tokens);
}

// The mean over two heads is that of what each of them gives.
TEST_F(Sound, AlignmentOfChosenHeads) {
  const auto alignment = [&](const std::string& heads) {
    const Outcome outcome = run_attune({"generate", kWhisper, "--audio", file_, "--language", "en", "--timestamps",
                                        "--alignments", "--json", "--alignment-heads", heads});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json j = json::parse(outcome.out);
    std::vector<double> values;
    for (const json& s : j["segments"]) {
      EXPECT_EQ(s["alignment"].size(), s["tokens"].size());
      for (const json& row : s["alignment"])
        for (const json& v : row) values.push_back(v.get<double>());
    }
    return values;
  };
  const auto first = alignment("0.0"), second = alignment("1.1"), both = alignment("0.0,1.1");
  ASSERT_FALSE(both.empty());
  ASSERT_EQ(first.size(), both.size());
  ASSERT_EQ(second.size(), both.size());
  EXPECT_NE(first, second);
  for (size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], (first[i] + second[i]) / 2, 1e-6);
  expect_error(
      run_attune({"generate", kWhisper, "--audio", file_, "--alignments", "--json", "--alignment-heads", "0.99"}),
      "99");
}

TEST_F(Sound, Subtitles) {
  const auto file = (folder_ / "a.srt").string();
  const Outcome outcome = run_attune({"generate", kWhisper, "--audio", file_, "--language", "en", "--subtitles", file});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string srt = test::read_file(file);
  EXPECT_THAT(srt, testing::StartsWith("1\n00:00:00,220 --> 00:00:01,080\n"));
  const auto cues = static_cast<size_t>(std::count(srt.begin(), srt.end(), '>'));
  EXPECT_EQ(cues, expected_["segments"].size());
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--subtitles", (folder_ / "a.sub").string()}),
               ".sub");
}

TEST_F(Sound, APromptChangesWhatIsHeard) {
  std::ifstream in(kRoot / "tests/runtime/data/whisper/expected.json");
  const json prompted = json::parse(in)["prompted"];
  ASSERT_EQ(prompted["samples"], expected_["samples"]);
  const json j = json::parse(
      run_attune({"generate", kWhisper, "--audio", file_, "--language", "en", "--prompt", "Anna", "--json"}).out);
  EXPECT_EQ(j["segments"][0]["tokens"], prompted["segments"][0]["tokens"]);
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--prompt", "a <|nospeech|>"}), "nospeech");
}

TEST_F(Sound, WrongInputs) {
  expect_error(run_attune({"generate", kWhisper, "--audio", (folder_ / "none.wav").string()}), "none.wav");
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--language", "klingon"}), "klingon");
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--task", "sing"}), "sing");
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--temperatures", "0,-1"}), "found -1");
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--logprob-threshold", "nan"}), "logprob_threshold");
  expect_error(run_attune({"generate", kWhisper, "--audio", file_, "--beams", "2", "--set", "num_return_sequences=2"}),
               "num_return_sequences");
}

// The processed picture of tests/runtime/data/images.npz, as transformers made it, gives the same tokens.
TEST(Picture, GivesWhatItsRecordedValuesGive) {
  const test::TemporaryFolder folder;
  const auto recorded = read_npz(kRoot / "tests/runtime/data/images.npz");
  const auto values = recorded.find("trocr");
  ASSERT_NE(values, recorded.end());
  write_npz(folder / "x.npz", {{"pixel_values", values->second}});
  const auto picture = (kRoot / "tests/runtime/data/images/rgb.png").string();
  const json of_values = json::parse(
      run_attune({"generate", kTrocr, "--features", (folder / "x.npz").string(), "--json", "--max-new", "8"}).out);
  const json of_picture =
      json::parse(run_attune({"generate", kTrocr, "--image", picture, "--json", "--max-new", "8"}).out);
  EXPECT_EQ(of_picture["sequences"], of_values["sequences"]);
  EXPECT_EQ(of_picture["texts"].size(), 1U);
}

TEST(Picture, AttentionOverItsPatches) {
  const test::TemporaryFolder folder;
  const auto picture = (kRoot / "tests/runtime/data/images/rgb.png").string();
  for (const char* name : {"a.json", "a.svg", "a.html", "a.png"}) {
    const Outcome outcome =
        run_attune({"generate", kTrocr, "--image", picture, "--max-new", "5", "--alignment", (folder / name).string()});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  const json j = json::parse(test::read_file(folder / "a.json"));
  EXPECT_EQ(j["grid"], (json{4, 4}));  // patches of 8 pixels; a class token is in front
  ASSERT_EQ(j["weights"].size(), j["tokens"].size());
  for (const json& token : j["weights"]) {
    double sum = 0;
    for (const json& row : token)
      for (const json& w : row) sum += w.get<double>();
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, 1);
  }
  EXPECT_THAT(test::read_file(folder / "a.svg"), testing::HasSubstr("data:image/png;base64,iVBORw0KGgo"));
  expect_error(run_attune({"generate", kTrocr, "--image", picture, "--alignment", (folder / "a.bmp").string()}),
               ".bmp");
}

}  // namespace
}  // namespace attune
