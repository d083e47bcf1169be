#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/program.h"

namespace attune {
namespace {

using nlohmann::json;
using test::run_attune;

json inspect(const std::filesystem::path& path) {
  const auto outcome = run_attune({"inspect", path.string(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(outcome.out);
}

size_t projected(const json& attentions, const char* operand) {
  size_t n = 0;
  for (const auto& a : attentions) n += a[operand]["projected"].get<bool>();
  return n;
}

// tests/models/manifest.tsv says how many attentions a file has; for marian also how many operands are projected.
TEST(Inspect, FindsTheAttentionsOfTheManifest) {
  std::ifstream manifest(test::sample("manifest.tsv"));
  std::string line;
  std::getline(manifest, line);
  size_t files = 0;
  while (std::getline(manifest, line)) {
    SCOPED_TRACE(line);
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    const json model = inspect(test::sample(cells.at(0)));
    const json& attentions = model["attentions"];
    EXPECT_EQ(model["inference_error"], "");
    EXPECT_EQ(attentions.size(), std::stoul(cells.at(4)));
    for (const auto& a : attentions)
      for (const char* key : {"heads", "head_width", "value_width"}) EXPECT_NE(a[key], "?") << a;
    if (cells[0].starts_with("marian")) {
      EXPECT_EQ(projected(attentions, "query"), std::stoul(cells.at(8)));
      EXPECT_EQ(projected(attentions, "key"), std::stoul(cells.at(9)));
      EXPECT_EQ(projected(attentions, "value"), std::stoul(cells.at(10)));
    }
    ++files;
  }
  EXPECT_GT(files, 20u);
}

TEST(Inspect, SaysHowAnAttentionIsFed) {
  const json model = inspect(test::sample("marian/optimum_eager_op14/decoder_with_past_model.onnx"));
  const json& own = model["attentions"][0];
  EXPECT_EQ(own["kind"], "self");
  EXPECT_EQ(own["heads"], "4");
  EXPECT_EQ(own["head_width"], "12");
  EXPECT_EQ(own["key"]["past"], "past_key_values.0.decoder.key");
  EXPECT_EQ(own["value"]["past"], "past_key_values.0.decoder.value");
  const json& cross = model["attentions"][1];
  EXPECT_EQ(cross["kind"], "cross");
  EXPECT_EQ(cross["key"]["source"], "past_key_values.0.encoder.key");
  EXPECT_NE(cross["masks"].dump().find("'encoder_attention_mask'"), std::string::npos);

  const json additive = inspect(test::sample("gru_bahdanau/torchscript_op14/decoder_step.onnx"))["attentions"][0];
  EXPECT_EQ(additive["score"], "additive");
  EXPECT_EQ(additive["query"]["source"], "state");
  EXPECT_EQ(additive["value"]["source"], "memory");
  EXPECT_EQ(additive["value"]["projected"], false);
}

TEST(Inspect, CountsOperatorsAndParameters) {
  const test::TemporaryFolder folder;
  Model m = parse_model(R"(
    <ir_version: 10, opset_import: ["" : 20, "some.where" : 1]>
    main (bool c, float[n, 2] x) => (float[n, 2] y) <float[2] w = {1, 2}, int64[3] unused = {1, 2, 3}> {
      z = some.where.Odd(x, w)
      y = If (c) <then_branch = t () => (float[n, 2] r) { r = Add(z, z) }, else_branch = e () => (float[n, 2] q) { q = Add(x, x) }>
    })");
  write_model(m, folder / "m.onnx");
  const json model = inspect(folder / "m.onnx");
  EXPECT_EQ(model["operators"], (json{{"Add", 2}, {"If", 1}, {"some.where.Odd", 1}}));
  EXPECT_EQ(model["nodes"], 2);
  EXPECT_EQ(model["nodes_in_bodies"], 2);
  EXPECT_EQ(model["parameters"], 5);
  EXPECT_EQ(model["bytes"], 32);
  EXPECT_EQ(model["inputs"][1]["type"], "float(n,2)");
  EXPECT_EQ(inspect(folder.path())["models"].size(), 1u);
  const auto text = run_attune({"inspect", folder.path().string()});
  EXPECT_NE(text.out.find("5 parameters, 32 B"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace attune
