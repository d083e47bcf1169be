// attune generate --alignment and attune diagnose, as people call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace attune {
namespace {

using nlohmann::json;

const std::filesystem::path kModels = std::filesystem::path(ATTUNE_SOURCE_DIR) / "examples/translate/models";
const std::string kText = "est-ce que la petite fille cherche un chapeau rouge ?";

json alignment(const test::TemporaryFolder& folder, const std::string& model, std::vector<std::string> options) {
  const std::string file = (folder / "a.json").string();
  std::vector<std::string> arguments{"generate", (kModels / model).string(), "--text", kText, "--alignment", file};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const test::Outcome outcome = test::run_attune(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "does the small girl look-for a red hat ?\n");
  return json::parse(test::read_file(file), nullptr, false);
}

// The first head of the last layer was trained to align: red looks at rouge, hat at chapeau.
TEST(Look, AlignmentsOfChosenHeadsOfAModelThatIsNotConverted) {
  const test::TemporaryFolder folder;
  const json j = alignment(folder, "transformer", {"--alignment-layers", "-1", "--alignment-heads", "0"});
  ASSERT_EQ(j["rows"][6], "red");
  ASSERT_EQ(j["columns"][8], "rouge");
  EXPECT_GT(j["heads"][0]["weights"][6][8], 0.9);
  EXPECT_GT(j["heads"][0]["weights"][7][7], 0.9);
  ASSERT_EQ(j["heads"].size(), 1 + 2 * 4U) << "the mean, and each head of both layers";
  EXPECT_EQ(j["heads"][5]["name"], "layer 1, head 0");
  EXPECT_EQ(j["heads"][5]["weights"], j["heads"][0]["weights"]);
  const json pair = alignment(folder, "transformer", {"--alignment-heads", "1.0"});
  EXPECT_EQ(pair["heads"][0]["weights"], j["heads"][0]["weights"]);
}

TEST(Look, AlignmentsFollowTheWinningBeam) {
  const test::TemporaryFolder folder;
  const json j = alignment(folder, "gru", {"--beams", "4"});
  EXPECT_GT(j["heads"][0]["weights"][6][8], 0.9);
  EXPECT_GT(j["heads"][0]["weights"][7][7], 0.9);
}

TEST(Look, EveryFormIsWritten) {
  const test::TemporaryFolder folder;
  const std::pair<const char*, const char*> forms[] = {
      {"a.svg", "<svg"}, {"a.png", "\x89PNG"}, {"a.html", "<!doctype html>"}};
  for (const auto& [name, begin] : forms) {
    const auto outcome = test::run_attune(
        {"generate", (kModels / "gru").string(), "--text", kText, "--alignment", (folder / name).string()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(test::read_file(folder / name).starts_with(begin)) << name;
  }
}

TEST(Look, WrongHeadsSayWhatThereIs) {
  const std::string model = (kModels / "transformer").string();
  const auto error = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments{"generate", model, "--text", kText, "--show-alignment"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return test::run_attune(arguments);
  };
  test::expect_error(error({"--alignment-layers", "2"}), "2 layers");
  test::expect_error(error({"--alignment-heads", "4"}), "4 heads");
  test::expect_error(error({"--alignment-heads", "1.x"}), "LAYER.HEAD");
}

TEST(Diagnose, ReportsEveryHeadAndTheRegime) {
  const test::TemporaryFolder folder;
  const std::string input = folder.write("texts.txt", "le chat noir dort\n" + kText + "\n").string();
  const std::string picture = (folder / "heads.svg").string();
  const auto outcome = test::run_attune({"diagnose", (kModels / "transformer").string(), "--input", input, "--json",
                                         "--longest", "32", "--picture", picture});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json j = json::parse(outcome.out);
  EXPECT_EQ(j["heads"].size(), 3 * 2 * 4U);
  for (const json& head : j["heads"]) {
    EXPECT_GE(head["entropy"], 0);
    EXPECT_LE(head["entropy"], 1);
    const bool over_source = head["attention"] == "cross" || head["part"] == "encoder";
    EXPECT_EQ(head["padding"], over_source ? json(0.0) : json()) << head;
  }
  EXPECT_EQ(j["outputs"].size(), 2U);
  EXPECT_TRUE(j["outputs"][1]["never_attended"].empty());
  EXPECT_EQ(j["regime"]["encoder"].size(), 2U);
  EXPECT_TRUE(test::read_file(picture).starts_with("<svg"));
}

TEST(Diagnose, SaysWhatIsWrong) {
  const test::TemporaryFolder folder;
  const std::string model = (kModels / "transformer").string();
  test::expect_error(test::run_attune({"diagnose", model, "--input", (folder / "none.txt").string()}), "none.txt");
  test::expect_error(test::run_attune({"diagnose", model, "--input", folder.write("empty.txt", "").string()}),
                     "no text");
}

}  // namespace
}  // namespace attune
