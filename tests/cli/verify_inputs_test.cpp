// Sizes and inputs for the verification, where none that are made up fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/npy.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/program.h"

namespace attune {
namespace {

using test::run_attune;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

// Sizes that no relation tells: any two whose product is 12291.
struct FixedSizes {
  FixedSizes() {
    Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,K] x) => (float[3,4097] y) <int64[2] shape = {3, 4097}> { y = Reshape (x, shape) })");
    write_model(m, folder / "m.onnx");
  }
  test::Outcome convert(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"convert", (folder / "m.onnx").string(), "-o", (folder / "out.onnx").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attune(arguments);
  }
  TemporaryFolder folder;
};

TEST(VerifyInputs, TheRefusalNamesWhatHelps) {
  const auto r = FixedSizes().convert({});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, AllOf(HasSubstr("NOT verified"), HasSubstr("--sizes"), HasSubstr("--verify-inputs"),
                           HasSubstr("--no-verify"), HasSubstr("nothing was written")));
}

TEST(VerifyInputs, SizesAreTaken) {
  const auto r = FixedSizes().convert({"--sizes", "N=1,K=12291"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("verified on"));
}

TEST(VerifyInputs, OneSizeTellsTheOther) {
  EXPECT_THAT(FixedSizes().convert({"--sizes", "K=4097"}).out, HasSubstr("verified on"));
}

TEST(VerifyInputs, InputsAreTaken) {
  const FixedSizes m;
  write_npz(m.folder / "in.npz", {{"x", Tensor::from<float>({12291, 1}, std::vector<float>(12291))}});
  const auto r = m.convert({"--verify-inputs", (m.folder / "in.npz").string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("verified on 1 kinds of inputs"));
}

TEST(VerifyInputs, WhatSaysNothingIsRefused) {
  const FixedSizes m;
  for (const char* sizes : {"batch=2", "N", "N=", "N=x", "N=-1", "N=0"})
    test::expect_error(m.convert({"--sizes", sizes}), sizes == std::string("batch=2") ? "N, K" : "--sizes");
  test::expect_error(m.convert({"--sizes", "N=1", "--no-verify"}), "--sizes");
  test::expect_error(m.convert({"--verify-inputs", "none.npz"}), "none.npz");
  write_npz(m.folder / "wrong.npz", {{"x", Tensor::from<float>({2, 2}, std::vector<float>(4))}});
  test::expect_error(m.convert({"--verify-inputs", (m.folder / "wrong.npz").string()}), "source");
}

}  // namespace
}  // namespace attune
