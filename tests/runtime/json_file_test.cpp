// JSON documents beside models, and what is said of those that aren't.
#include "runtime/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(JsonFile, MissingIsNothing) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(read_json(folder / "config.json"));
  EXPECT_FALSE(read_json_object(folder / "config.json"));
}

TEST(JsonFile, FaultsSayTheirFileAndLine) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("config.json", "{\"a\": 1,\n \"b\": ]}");
  EXPECT_THAT(test::error_of([&] { (void)read_json(file); }),
              AllOf(HasSubstr("config.json: "), HasSubstr("line 2, column 7")));
}

// As json.dumps of Python writes them, which transformers uses.
TEST(JsonFile, NumbersThatAreNotFinite) {
  const test::TemporaryFolder folder;
  const auto file = folder.write(
      "config.json",
      R"({"z": [1, -2.5e3, NaN], "a": "NaN, \"Infinity", "b": {"c": -Infinity, "Infinity": 7}, "d": Infinity})");
  const auto object = *read_json(file);
  EXPECT_EQ(object["z"][1], -2500);
  EXPECT_TRUE(std::isnan(object["z"][2].get<double>()));
  EXPECT_EQ(object["a"], "NaN, \"Infinity");
  EXPECT_EQ(object["b"]["c"], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(object["b"]["Infinity"], 7);
  EXPECT_EQ(object["d"], std::numeric_limits<double>::infinity());
  EXPECT_THAT(
      test::error_of([&] { (void)read_json(folder.write("config.json", "{\"a\": -Infinity,\n \"b\": NaN]}")); }),
      HasSubstr("line 2, column 10"));
  for (const char* text : {"[NaNa]", "[nan]", "{NaN: 1}", "[+Infinity]", "[1 NaN]", "[1NaN]", "[Infinity5]", "[-NaN]",
                           "[NaN NaN]", "[\"NaN]"})
    EXPECT_THROW((void)read_json(folder.write("config.json", text)), Error) << text;
}

TEST(JsonFile, ListIsNoObject) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("config.json", "[1, 2]");
  EXPECT_EQ(read_json(file)->size(), 2);
  EXPECT_THAT(test::error_of([&] { (void)read_json_object(file); }), HasSubstr("expected a JSON object, found array"));
}

TEST(JsonFile, FaultsSayTheirKey) {
  const auto object = nlohmann::json::parse(R"({"model": {"vocab": {"a": "zero"}}})");
  std::string said;
  try {
    (void)object["model"]["vocab"]["a"].get<int64_t>();
  } catch (const nlohmann::json::exception& e) {
    said = json_fault(e);
  }
  EXPECT_THAT(said, AllOf(HasSubstr("/model/vocab/a"), Not(HasSubstr("json.exception"))));
}

}  // namespace
}  // namespace attune
