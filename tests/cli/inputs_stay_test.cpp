// Outputs that would replace what is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/program.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::run_attune;
using test::TemporaryFolder;

// The file is as it was, and the message names it.
void expect_kept(const fs::path& file, const std::vector<std::string>& arguments) {
  const std::string before = test::read_file(file);
  expect_error(run_attune(arguments), file.filename().string());
  EXPECT_EQ(test::read_file(file), before) << file;
}

// m.onnx: y = x w, whose weights lie in m.onnx.data; in.npz, x.npy.
struct Product {
  TemporaryFolder folder;
  std::string model = path("m.onnx");

  Product() {
    Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
      main (float[n, 2] x) => (float[n, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) })");
    WriteOptions options;
    options.external_tensor_bytes = options.external_threshold = 1;
    write_model(m, model, options);
    const Tensor x = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
    write_npz(path("in.npz"), {{"x", x}});
    write_npy(path("x.npy"), x);
  }
  std::string path(const char* name) const { return (folder / name).string(); }
};

TEST(InputsStay, OfRun) {
  const Product p;
  ASSERT_TRUE(fs::exists(p.path("m.onnx.data")));
  const std::vector<std::string> run{"run", p.model, "--inputs", p.path("in.npz")};
  for (const char* name : {"m.onnx", "m.onnx.data", "in.npz"})
    for (const char* option : {"--output=", "--profile="}) {
      auto arguments = run;
      arguments.push_back(option + p.path(name));
      expect_kept(p.folder / name, arguments);
    }
  expect_kept(p.folder / "x.npy", {"run", p.model, "--input", "x=" + p.path("x.npy"), "--output", p.path("x.npy")});
  // Whatever way leads to it.
  fs::create_symlink(p.folder / "in.npz", p.folder / "link.npz");
  expect_kept(p.folder / "in.npz", {"run", p.model, "--inputs", p.path("in.npz"), "--output", p.path("link.npz")});
}

TEST(InputsStay, OfConvert) {
  const Product p;
  expect_kept(p.folder / "m.onnx.data", {"convert", p.model, "-o", p.path("m.onnx.data")});
  expect_kept(p.folder / "in.npz", {"convert", p.model, "-o", p.path("in.npz"), "--verify-inputs", p.path("in.npz")});
  const std::vector<std::string> reported{"convert",         p.model,          "-o",      p.path("o.onnx"),
                                          "--verify-inputs", p.path("in.npz"), "--report"};
  for (const char* name : {"in.npz", "m.onnx.data"}) {
    auto arguments = reported;
    arguments.push_back(p.path(name));
    expect_kept(p.folder / name, arguments);
  }
  EXPECT_FALSE(fs::exists(p.folder / "o.onnx"));
}

// A folder of the recorded models, whose configuration lies in the folder above, too.
struct Generation {
  TemporaryFolder folder;
  std::string model = (folder / "model").string();
  Generation() {
    fs::copy(test::sample("marian/optimum_sdpa_op17"), model, fs::copy_options::recursive);
    fs::copy(test::sample("marian/generation_config.json"), folder / "generation_config.json");
    folder.write("model/config.json", "{}");
    folder.write("ids.json", "5 6 7 2\n");
    folder.write("r.json", R"({"inputs": {"input_ids": [[5, 6, 7, 2]]}})");
  }
};

TEST(InputsStay, OfGenerate) {
  const Generation g;
  fs::remove(g.folder / "model/generation_config.json");  // that of the folder above is read
  const std::string ids = (g.folder / "ids.json").string(), request = (g.folder / "r.json").string();
  for (const fs::path& file :
       {g.folder / "ids.json", g.folder / "generation_config.json", g.folder / "model/config.json"})
    expect_kept(file, {"generate", g.model, "--ids", ids, "--alignment", file.string()});
  expect_kept(request, {"generate", g.model, "--request", request, "--alignment", request});
}

TEST(InputsStay, OfDiagnose) {
  const Generation g;
  g.folder.write("x.json", "text\n");
  const std::string input = (g.folder / "x.json").string();
  for (const std::string& picture : {input, g.model + "/config.json"})
    expect_kept(picture, {"diagnose", g.model, "--input", input, "--picture", picture});
}

TEST(InputsStay, OtherFilesOfTheFolderAreReplaced) {
  const Generation g;
  const std::string picture = g.model + "/a.json";
  g.folder.write("model/a.json", "old");
  const auto r = run_attune(
      {"generate", g.model, "--ids", (g.folder / "ids.json").string(), "--max-new", "3", "--alignment", picture});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(test::read_file(picture), "old");
}

}  // namespace
}  // namespace attune
