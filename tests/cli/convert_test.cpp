#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/program.h"
#include "tests/support/spoiled_attention.h"

namespace attune {
namespace {

using nlohmann::json;
using test::run_attune;
using test::SpoiledAttention;
using test::TemporaryFolder;
using testing::HasSubstr;

// FOLDER/m.onnx, to be converted to FOLDER/out.onnx.
struct Conversion {
  explicit Conversion(const SpoiledAttention& attention) {
    Model m = parse_model(attention.text());
    write_model(m, folder / "m.onnx");
  }
  test::Outcome run(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"convert", (folder / "m.onnx").string(), "-o", (folder / "out.onnx").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attune(arguments);
  }
  json report() const {
    std::ifstream in(folder / "report.json");
    return json::parse(in);
  }
  TemporaryFolder folder;
};

test::Outcome convert_folder(const std::filesystem::path& output) {
  return run_attune(
      {"convert", test::sample("marian/optimum_sdpa_op17").string(), "-o", output.string(), "--no-verify"});
}

SpoiledAttention with_tanh() {
  SpoiledAttention a;
  a.with("m", "[clip] a = Tanh (s)\n  m = Add (a, mask)");
  return a;
}

TEST(Convert, SaysWhyAnAttentionIsLeftAndReportsTheSame) {
  const Conversion c(with_tanh());
  const auto r = c.run({"--explain", "--report", (c.folder / "report.json").string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("m.onnx: 0 attentions fused"));
  EXPECT_THAT(r.out, HasSubstr("left: node 'softmax' (Softmax)"));
  const json miss = c.report()["models"][0]["near_misses"].at(0);
  EXPECT_EQ(miss["rule"], "fuse_attention");
  EXPECT_EQ(miss["anchor"], "node 'softmax' (Softmax)");
  EXPECT_EQ(miss["value"], "a");
  for (const char* part : {"path", "reason"}) EXPECT_THAT(r.out, HasSubstr(miss[part].get<std::string>()));
}

TEST(Convert, MaxRewritesBisects) {
  const Conversion c{SpoiledAttention()};
  for (const std::string n : {"0", "1", "3"}) {
    const auto r = c.run({"--max-rewrites", n, "--report", (c.folder / "report.json").string()});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(std::to_string(c.report()["models"][0]["rewrites"].size()), n);
    EXPECT_TRUE(c.report()["models"][0]["verification"]["passed"].get<bool>());
  }
}

TEST(Convert, AReportNeverReplacesAModel) {
  const Conversion c{SpoiledAttention()};
  const std::string source = test::read_file(c.folder / "m.onnx");
  for (const char* name : {"m.onnx", "out.onnx", "other.onnx"})
    test::expect_error(c.run({"--report", (c.folder / name).string()}), "--report");
  EXPECT_EQ(test::read_file(c.folder / "m.onnx"), source);
  EXPECT_FALSE(std::filesystem::exists(c.folder / "out.onnx"));
  test::expect_error(c.run({"--report", (c.folder / "missing/r.json").string()}), "missing/r.json");
}

TEST(Convert, TheToleranceAskedForHoldsForNarrowerWeightsToo) {
  const std::string encoder = test::sample("marian/optimum_sdpa_op17/encoder_model.onnx").string();
  const TemporaryFolder folder;
  const auto convert = [&](const char* tolerance) {
    return run_attune(
        {"convert", encoder, "-o", (folder / "out.onnx").string(), "--weights-type", "int8", "--tolerance", tolerance});
  };
  EXPECT_EQ(convert("1e-6").code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
  EXPECT_EQ(convert("0.9").code, 0);
}

TEST(Convert, OptionsThatWouldDoNothing) {
  const Conversion c{SpoiledAttention()};
  test::expect_error(c.run({"--weights-group", "32"}), "--weights-group");
  test::expect_error(c.run({"--weights-type", "float16", "--activations", "int8"}), "float or int16");
  test::expect_error(c.run({"--weights-type", "int4", "--activations", "int16"}), "float or int8");
  test::expect_error(c.run({"--activations", "float"}), "--weights-type");
  test::expect_error(c.run({"--no-verify", "--tolerance", "1"}), "--tolerance");
}

TEST(Convert, SaysThatWeightsAreNarrowAlready) {
  const TemporaryFolder folder;
  const std::string narrow = (folder / "narrow.onnx").string(), again = (folder / "again.onnx").string();
  const std::string encoder = test::sample("marian/optimum_sdpa_op17/encoder_model.onnx").string();
  ASSERT_EQ(run_attune({"convert", encoder, "-o", narrow, "--weights-type", "int8"}).code, 0);
  const auto r = run_attune({"convert", narrow, "-o", again, "--weights-type", "int8"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("no weights were stored narrower"));
}

// Its source rounds activations to integers: the result is judged as those of other quantised models are.
TEST(Convert, ItsOwnInt8ModelToAnotherTarget) {
  const TemporaryFolder folder;
  const std::string narrow = (folder / "narrow.onnx").string();
  const std::string encoder = test::sample("marian/optimum_sdpa_op17/encoder_model.onnx").string();
  ASSERT_EQ(run_attune({"convert", encoder, "-o", narrow, "--weights-type", "int8"}).code, 0);
  for (const char* target : {"attune", "portable", "onnx"}) {
    const auto r = run_attune({"convert", narrow, "-o", (folder / "again.onnx").string(), "--target", target});
    EXPECT_EQ(r.code, 0) << target << r.err << r.out;
  }
}

TEST(Convert, SaysWhichOptionsChangedNothing) {
  const TemporaryFolder folder;
  const std::string encoder = test::sample("marian/optimum_sdpa_op17/encoder_model.onnx").string();
  const auto r = run_attune(
      {"convert", encoder, "-o", (folder / "o.onnx").string(), "--kv-type", "float16", "--add-cache", "--no-verify"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("no keys and values were stored narrower"));
  EXPECT_THAT(r.out, HasSubstr("no cache was added"));
}

// Two float matrices, one of them of another type: whatever the inputs are.
TEST(Convert, ASourceThatCannotRunIsAnError) {
  const TemporaryFolder folder;
  Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    main (float[n, 2] x) => (float[n, 2] y) <uint32[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) })");
  write_model(m, folder / "m.onnx");
  const auto r = run_attune({"convert", (folder / "m.onnx").string(), "-o", (folder / "o.onnx").string()});
  test::expect_error(r, "expected float, got uint32");
  EXPECT_EQ(r.out, "");
  EXPECT_FALSE(std::filesystem::exists(folder / "o.onnx"));
}

TEST(Convert, AFolderDoesNotBecomeAFile) {
  const TemporaryFolder folder;
  folder.write("o", "kept");
  test::expect_error(
      run_attune({"convert", test::sample("marian/optimum_sdpa_op17").string(), "-o", (folder / "o").string()}),
      "is a file");
  EXPECT_EQ(test::read_file(folder / "o"), "kept");
}

TEST(Convert, RemovesWhatKilledConversionsLeft) {
  const Conversion c{SpoiledAttention()};
  const auto abandoned = c.folder / ".attune-partial-aB3xyZ";
  const auto others = {c.folder / ".attune-partial-backup-of-mine", c.folder / "out.onnx.partial-1"};
  for (const auto& other : others) std::filesystem::create_directory(other);
  std::filesystem::create_directory(abandoned);
  EXPECT_EQ(c.run({}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  for (const auto& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
}

// The folder lies on another file system, and its parent can't be written.
TEST(Convert, WritesInsideAFolderThatIsThere) {
  const TemporaryFolder folder, elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "link");
  elsewhere.write("kept.txt", "kept");
  const auto r = convert_folder(folder / "link");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(folder.entries(), 1U);
  EXPECT_EQ(test::read_file(elsewhere / "kept.txt"), "kept");
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "encoder_model.onnx"));
}

TEST(Convert, AFolderInTheWayIsFoundBeforeAnythingIsReplaced) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out/encoder_model.onnx/inner");
  folder.write("out/decoder_model.onnx", "old");
  const auto r = convert_folder(folder / "out");
  test::expect_error(r, "encoder_model.onnx: expected a file or none, found a folder");
  EXPECT_EQ(test::read_file(folder / "out/decoder_model.onnx"), "old");
}

// Generation would take the old decoder for one of the new models.
TEST(Convert, ModelsOfAnotherConversionAreInTheWay) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out");
  folder.write("out/decoder_model_of_old.onnx", "old");
  const auto r = convert_folder(folder / "out");
  test::expect_error(r, "holds decoder_model_of_old.onnx");
  EXPECT_FALSE(std::filesystem::exists(folder / "out/encoder_model.onnx"));
}

TEST(Convert, ReplacesTheFileBehindALinkAndKeepsItsPermissions) {
  const Conversion c{SpoiledAttention()};
  const auto file = c.folder.write("file.onnx", "old");
  const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(file, mode);
  std::filesystem::create_symlink("file.onnx", c.folder / "out.onnx");
  EXPECT_EQ(c.run({"--report", (c.folder / "report.json").string()}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(c.folder / "out.onnx"));
  EXPECT_EQ(read_model(file).graph->outputs().size(), 1U);
  EXPECT_EQ(std::filesystem::status(file).permissions(), mode);
}

TEST(Convert, LongNamesAreNames) {
  const Conversion c{SpoiledAttention()};
  const std::string name = std::string(250, 'n') + ".onnx";
  EXPECT_EQ(run_attune({"convert", (c.folder / "m.onnx").string(), "-o", (c.folder / name).string()}).code, 0);
  test::expect_error(run_attune({"convert", (c.folder / "m.onnx").string(), "-o", ""}), "expected a name");
}

// Whatever the files with the weights of a model are called.
TEST(Convert, WeightsOfASourceAreNotCopied) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "models");
  Model m = parse_model(SpoiledAttention().text());
  write_model(m, folder / "models/m.onnx", {.external_tensor_bytes = 0, .external_threshold = 0});
  std::string bytes = test::read_file(folder / "models/m.onnx");
  for (size_t at = 0; (at = bytes.find("m.onnx.data", at)) != std::string::npos;) bytes.replace(at, 11, "m.onnx.blob");
  folder.write("models/m.onnx", bytes);
  std::filesystem::rename(folder / "models/m.onnx.data", folder / "models/m.onnx.blob");
  folder.write("models/config.json", "{}");
  const auto r = run_attune({"convert", (folder / "models").string(), "-o", (folder / "out").string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "out/config.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/m.onnx.blob"));
}

TEST(Convert, ReportsGoBesideModelsButReplaceNothing) {
  const TemporaryFolder folder;
  const std::string source = test::sample("marian/optimum_sdpa_op17").string(), out = (folder / "out").string();
  EXPECT_EQ(run_attune({"convert", source, "-o", out + "/", "--report", out + "/report.json", "--no-verify"}).code, 0);
  EXPECT_EQ(json::parse(test::read_file(folder / "out/report.json"))["written"], true);
  test::expect_error(run_attune({"convert", source, "-o", out, "--report", out + "/config.json", "--no-verify"}),
                     "expected a file of its own");
}

TEST(Convert, OneSizeOfAName) {
  const Conversion c{SpoiledAttention()};
  test::expect_error(c.run({"--sizes", "b=2,b=3"}), "b=3: expected one size of a name");
}

TEST(Convert, WeightsOfAModelWithoutCrossAttention) {
  const Conversion c{SpoiledAttention()};
  const auto r = c.run({"--weights", "all"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("no cross-attention"));
  EXPECT_EQ(c.run({"--weights", "first"}).code, 2);
  EXPECT_EQ(c.run({"--weights", "all,0.1"}).code, 2);
}

TEST(Convert, AFailureLeavesNothingAndNamesTheModelOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "models");
  folder.write("models/x.onnx", "no model");
  for (const char* output : {"out/", "out/.", "out", "new/out"}) {
    const auto outcome = run_attune({"convert", (folder / "models").string(), "-o", (folder / output).string()});
    test::expect_error(outcome, "x.onnx: not a valid ONNX file");
    EXPECT_EQ(outcome.err.find("x.onnx"), outcome.err.rfind("x.onnx")) << outcome.err;
    EXPECT_EQ(folder.entries(), 1U) << output;
  }
}

}  // namespace
}  // namespace attune
