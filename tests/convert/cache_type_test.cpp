// Keys and values of decoders kept in 16 bits.
#include "convert/cache_type.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "convert/convert.h"
#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "runtime/generator.h"
#include "runtime/profile.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

const fs::path kMarian = fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_sdpa_op17";

Model stored(const std::string& file, DataType type, size_t* changed = nullptr) {
  Model model = read_model(kMarian / file);
  fuse(model);
  const size_t n = store_caches(model, type);
  if (changed) *changed = n;
  return model;
}

size_t halves(std::span<Value* const> values, DataType type) {
  return static_cast<size_t>(
      std::count_if(values.begin(), values.end(), [&](const Value* v) { return v->element_type() == type; }));
}

class CacheType : public testing::TestWithParam<DataType> {};

// Two layers: keys and values of self- and cross-attention are 8.
TEST_P(CacheType, ChangesWhatIsKeptFromStepToStep) {
  const DataType type = GetParam();
  size_t changed = 0;
  const Model first = stored("decoder_model.onnx", type, &changed);
  EXPECT_EQ(changed, 8U);
  EXPECT_EQ(halves(first.graph->outputs(), type), 8U);
  EXPECT_EQ(halves(first.graph->inputs(), type), 0U);
  const Model next = stored("decoder_with_past_model.onnx", type, &changed);
  EXPECT_EQ(changed, 12U);
  EXPECT_EQ(halves(next.graph->inputs(), type), 8U);
  EXPECT_EQ(halves(next.graph->outputs(), type), 4U);
  const Model merged = stored("decoder_model_merged.onnx", type, &changed);
  EXPECT_EQ(changed, 16U);
  EXPECT_EQ(halves(merged.graph->inputs(), type), 8U);
  EXPECT_EQ(halves(merged.graph->outputs(), type), 8U);
  for (const Model* m : {&first, &next, &merged}) EXPECT_NO_THROW(m->graph->verify());
}

TEST_P(CacheType, ComputesTheSameButForRounding) {
  for (const char* file : {"decoder_model.onnx", "decoder_with_past_model.onnx", "decoder_model_merged.onnx"}) {
    VerifyOptions options;
    options.tolerance = GetParam() == DataType::kFloat16 ? 2e-3 : 2e-2;
    const Verification v = verify(read_model(kMarian / file), stored(file, GetParam()), options);
    EXPECT_TRUE(v.passed()) << file << ": " << v.largest_relative;
    EXPECT_GT(v.largest_relative, 0) << file << ": nothing was rounded";
  }
}

// Plans read and write such caches where they lie: a step casts none of them.
TEST_P(CacheType, PlansTakeCachesAsTheyAre) {
  const Model model = stored("decoder_with_past_model.onnx", GetParam());
  Profile profile;
  Session session(Plan::compile(model), {.threads = 1, .profile = &profile});
  TensorMap inputs;
  for (const Plan::Port& port : session.plan().inputs()) {
    Shape shape;
    for (const Dim& d : *port.type.tensor.shape) shape.push_back(d.constant().value_or(1));
    Tensor t = Tensor::allocate(port.type.tensor.element, shape);
    std::memset(t.mutable_raw(), 0, t.bytes());
    if (t.type() == DataType::kInt64) t.mutable_data<int64_t>()[0] = 1;
    inputs[port.name] = t;
  }
  const TensorMap outputs = session.run(std::move(inputs));
  size_t presents = 0;
  for (const auto& [name, value] : outputs) presents += value.tensor().type() == GetParam() ? 1U : 0U;
  EXPECT_EQ(presents, 4U);
  for (const ProfileEvent& e : profile.events()) {
    if (e.op != "Cast") continue;
    for (const Shape& s : e.inputs) EXPECT_NE(s.rank(), 4U) << e.label;
  }
}

TEST_P(CacheType, FoldersGenerate) {
  const TensorMap inputs{{"input_ids", Tensor::from<int64_t>({2, 4}, {55, 108, 22, 77, 53, 147, 111, 61})}};
  for (const bool merged : {false, true}) {
    const test::TemporaryFolder folder;
    std::vector<std::string> files{"encoder_model.onnx"};
    if (merged) files.push_back("decoder_model_merged.onnx");
    if (!merged) files.insert(files.end(), {"decoder_model.onnx", "decoder_with_past_model.onnx"});
    for (const std::string& f : files) {
      Model model = stored(f, GetParam());
      write_model(model, folder / f);
    }
    fs::copy(kMarian.parent_path() / "generation_config.json", folder / "generation_config.json");
    Generator exact = Generator::load(kMarian), narrow = Generator::load(folder.path());
    GenerationOptions options = exact.defaults();
    options.max_new_tokens = 12;
    for (const int beams : {1, 4}) {
      options.num_beams = beams;
      const auto expected = exact.generate(inputs, options), got = narrow.generate(inputs, options);
      for (size_t s = 0; s < 2; ++s) EXPECT_EQ(got[s][0].tokens, expected[s][0].tokens) << s << " beams " << beams;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CacheType, testing::Values(DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(CacheTypeName, Names) {
  EXPECT_EQ(cache_type_from_name("float16"), DataType::kFloat16);
  EXPECT_EQ(cache_type_from_name("bfloat16"), DataType::kBFloat16);
  EXPECT_THROW(cache_type_from_name("int8"), Error);
}

}  // namespace
}  // namespace attune
