#include "graph/io/text.h"

#include <gtest/gtest.h>

#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::IsError;
using test::thrown;
using Kind = Error::Kind;

TEST(Text, ErrorsSayWhere) {
  const Error e = thrown([] { parse_model("<ir_version: 8, opset_import: [\"\" : 17]>\nmain (float[2 x) => () {}"); });
  EXPECT_THAT(e, IsError(Kind::kInvalidModel, "line: 2"));
  EXPECT_THAT(thrown([] { parse_model(""); }), IsError(Kind::kInvalidModel, "ONNX text"));
  EXPECT_THAT(thrown([] { parse_model("<ir_version: 8, opset_import: [\"\" : 17]> m () => (y) { y = Neg(x) }"); }),
              IsError(Kind::kInvalidModel, "'x', which nothing defines"));
}

TEST(Text, NumbersOutOfRangeAreErrors) {
  EXPECT_THROW(parse_model("<ir_version: 8, opset_import: [\"\" : 17]> m () => () { y = A<f = 1e999999>() }"), Error);
  EXPECT_THROW(parse_model("<ir_version: 99999999999999999999, opset_import: [\"\" : 17]> m () => () {}"), Error);
}

TEST(Text, NestingBombs) {
  const std::string header = "<ir_version: 8, opset_import: [\"\" : 17]>\nmain (";
  std::string types = header, bodies = header + ") => () {";
  for (int i = 0; i < 100000; ++i) types += "seq(";
  for (int i = 0; i < 100000; ++i) bodies += "y = If <then_branch = t () => () { # \"\n s = A<k = \"}})\\\"\">() ";
  EXPECT_THAT(thrown([&] { parse_model(types); }), IsError(Kind::kLimit, "nests deeper"));
  EXPECT_THAT(thrown([&] { parse_model(bodies); }), IsError(Kind::kLimit, "nests deeper"));
}

}  // namespace
}  // namespace attune
