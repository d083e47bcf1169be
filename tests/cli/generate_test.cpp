// attune generate and attune bench, as programs call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/io/npy.h"
#include "tests/support/program.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kMarian = fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian";

struct Result {
  int status = -1;
  std::string output;  // both streams
};

Result run(const std::string& arguments) {
  const std::string command = test::quoted(std::string(ATTUNE_BINARY_DIR) + "/attune") + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result result;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) result.output.append(buffer.data(), n);
  result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

class Commands : public testing::Test {
 protected:
  // Names as the shell takes them.
  std::string file(const std::string& name, const std::string& text) const {
    return test::quoted(folder_.write(name, text));
  }
  std::string model() const { return test::quoted(kMarian / "optimum_sdpa_op17"); }
  const test::TemporaryFolder folder_;
};

TEST_F(Commands, RequestsGiveWhatHuggingFaceGives) {
  std::ifstream in(kMarian / "generate.json");
  const json recorded = json::parse(in);
  const json& one = recorded["cases"][1];
  for (const std::string name : {"greedy_ngram2", "beam4_early"}) {
    json request{{"inputs", one["inputs"]}, {"args", one["runs"][name]["args"]}};
    request["args"]["max_new_tokens"] = recorded["max_new_tokens"];
    const Result result = run("generate " + model() + " --json --request " + file("request.json", request.dump()));
    ASSERT_EQ(result.status, 0) << result.output;
    const json output = json::parse(result.output);
    EXPECT_EQ(output["sequences"], one["runs"][name]["sequences"]) << name;
    EXPECT_EQ(output.contains("scores"), name != "greedy_ngram2");
  }
}

TEST_F(Commands, IdsAsText) {
  const Result result = run("generate " + model() + " --max-new 4 --ids " + file("ids.txt", "53 147 111\n5, 6\n"));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 2) << result.output;
}

// The mask of a padded array follows from the token that pads, as in transformers.
TEST_F(Commands, IdsOfAPaddedArray) {
  std::ifstream in(kMarian / "generate.json");
  const json recorded = json::parse(in);
  bool padded = false;
  for (const json& one : recorded["cases"]) {
    const auto rows = one["inputs"]["input_ids"].get<std::vector<std::vector<int64_t>>>();
    std::vector<int64_t> ids;
    for (const auto& row : rows) ids.insert(ids.end(), row.begin(), row.end());
    const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
    const Result result = run("generate " + model() + " --json --max-new " + recorded["max_new_tokens"].dump() +
                              " --ids " + file("ids.npy", serialize_npy(Tensor::from<int64_t>(shape, ids))));
    ASSERT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(json::parse(result.output)["sequences"], one["runs"]["greedy"]["sequences"]);
    padded = padded || one["inputs"]["attention_mask"].dump().find('0') != std::string::npos;
  }
  EXPECT_TRUE(padded);
}

TEST_F(Commands, BenchDecodesExactlySoManyTokens) {
  const Result result = run("bench " + model() + " --new 7 --batch 3 --beams 2 --rounds 1 --json --source-ids " +
                            file("ids.txt", "53 147 111 61\n"));
  ASSERT_EQ(result.status, 0) << result.output;
  const json output = json::parse(result.output);
  EXPECT_GT(output["step_ms"].get<double>(), 0);
  EXPECT_GE(output["encode_ms"].get<double>(), 0);
  ASSERT_EQ(output["tokens"].size(), 3U);
  for (const json& row : output["tokens"]) EXPECT_EQ(row.size(), 7U);
  EXPECT_EQ(output["tokens"][0], output["tokens"][2]);
}

TEST_F(Commands, BenchWithoutSources) {
  for (const Shape& shape : {Shape{0, 80, 10}, Shape{}}) {
    const Result result =
        run("bench " + model() + " --batch 2 --source-features " +
            file("x.npy",
                 serialize_npy(Tensor::from<float>(shape, std::vector<float>(static_cast<size_t>(shape.count()))))));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_NE(result.output.find("expected sources along the first axis"), std::string::npos) << result.output;
  }
}

TEST_F(Commands, WrongRequestsSayWhy) {
  const auto error = [&](const std::string& text) {
    const Result result = run("generate " + model() + " --json --request " + file("request.json", text));
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(error("{"), testing::HasSubstr("JSON"));
  EXPECT_THAT(error(R"({"args": {}})"), testing::HasSubstr("inputs"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1, 2], [3]]}})"), testing::HasSubstr("input_ids"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "args": {"num_beams": 0}})"), testing::HasSubstr("num_beams"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1, -1]]}})"), testing::HasSubstr("found -1"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "args": {"num_beams": 2.5}})"),
              testing::HasSubstr("num_beams"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "args": {"early_stopping": "soon"}})"),
              testing::HasSubstr("early_stopping"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "args": {"number_of_beams": 2}})"),
              testing::HasSubstr("number_of_beams"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "arg": {"num_beams": 2}})"), testing::HasSubstr("'arg'"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1, 2]], "attention_maks": [[1, 0]]}})"),
              testing::HasSubstr("'attention_maks'"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]], "decoder_input_ids": 5}})"),
              testing::HasSubstr("decoder_input_ids"));
  EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]], "decoder_input_ids": [[5], [6]]}})"),
              testing::HasSubstr("2 prompts, but 1 sources"));
  for (const std::string setting : {R"("decoder_start_token_id": -1)", R"("seed": 99999999999999999999)",
                                    R"("max_new_tokens": 1e30)", R"("seed": -1)"}) {
    const std::string name = setting.substr(1, setting.find(':') - 2);
    EXPECT_THAT(error(R"({"inputs": {"input_ids": [[1]]}, "args": {)" + setting + "}}"), testing::HasSubstr(name));
  }
}

TEST_F(Commands, InputsThatAreNoneSayWhy) {
  const auto error = [&](const std::string& arguments) {
    const Result result = run("generate " + arguments);
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(error("nowhere --text x"), testing::HasSubstr("nowhere: no such folder"));
  EXPECT_THAT(error(model() + " --ids " + file("gap.ids", "53 147\n\n5 6\n")), testing::HasSubstr("gap.ids:2"));
  EXPECT_THAT(error(model() + " --ids " + file("none.npy", serialize_npy(Tensor::from<int64_t>({1, 0}, {})))),
              testing::HasSubstr("holds no ids"));
}

TEST_F(Commands, NullIsNone) {
  const std::string ids = "--max-new 6 --ids " + file("ids.txt", "53 147 111\n");
  const Result none = run("generate " + model() + " " + ids + " --set eos_token_id=-1");
  ASSERT_EQ(none.status, 0) << none.output;
  EXPECT_EQ(run("generate " + model() + " " + ids + " --set eos_token_id=null").output, none.output);
}

}  // namespace
}  // namespace attune
