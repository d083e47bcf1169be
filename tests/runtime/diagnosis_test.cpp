// Models whose heads are made to show one symptom each.
#include "runtime/diagnosis/diagnosis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "runtime/diagnosis/regime.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

// Words are one-hot vectors: 0 padding, 1 start, 2 end.
constexpr size_t kWords = 8;
const double kRoot = std::sqrt(static_cast<double>(kWords));  // scores are divided by it

// A constant (rows, columns) of `value(row, column)`.
std::string constant(const std::string& name, size_t rows, size_t columns,
                     const std::function<double(size_t, size_t)>& value) {
  std::vector<double> values;
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) values.push_back(value(r, c));
  return fmt::format("float[{},{}] {} = {{{}}}", rows, columns, name, fmt::join(values, ", "));
}

struct HeadMatrices {
  std::function<double(size_t word, size_t feature)> query, key, value;
};

double same(size_t a, size_t b) { return a == b ? 1 : 0; }
// Each word attends to its own kind: score `s` against 0.
HeadMatrices own_kind(double s, double value = 1) {
  return {[s](size_t w, size_t f) { return s * kRoot * same(w, f); }, same,
          [value](size_t w, size_t f) { return value * same(w, f); }};
}

// Joint projections of several heads, side by side, and an output projection of 1 / heads.
std::string matrices(const std::string& stem, const std::vector<HeadMatrices>& heads) {
  const size_t n = heads.size();
  const auto joint = [&](const char* name, auto part) {
    return constant(stem + name, kWords, n * kWords,
                    [&](size_t w, size_t c) { return (heads[c / kWords].*part)(w, c % kWords); });
  };
  return joint("q", &HeadMatrices::query) + ", " + joint("k", &HeadMatrices::key) + ", " +
         joint("v", &HeadMatrices::value) + ", " + constant(stem + "o", n * kWords, kWords, [&](size_t r, size_t c) {
           return same(r % kWords, c) / static_cast<double>(n);
         });
}

const std::string kHeader = R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>)";
const std::string kEye = constant("eye", kWords, kWords, same);

void write(const test::TemporaryFolder& folder, const std::string& file, const std::string& text) {
  Model model = parse_model(kHeader + text);
  write_model(model, folder / file);
}

// Two layers: the first doesn't look at the mask, the second does.
void write_encoder(const test::TemporaryFolder& folder, const std::vector<HeadMatrices>& unmasked,
                   const std::vector<HeadMatrices>& masked) {
  write(folder, "encoder_model.onnx",
        fmt::format(R"(encoder (int64[b,s] input_ids, int64[b,s] attention_mask) => (float[b,s,8] memory)
    <{}, {}, {}, int64[2] axes = {{1, 2}}> {{
      x = Gather(eye, input_ids)
      a = ai.attune.Attention <num_heads = {}> (x, , , aq, ak, av)
      ao_ = MatMul(a, ao)
      y = Add(x, ao_)
      m = Cast <to = 9> (attention_mask)
      mask = Unsqueeze(m, axes)
      c = ai.attune.Attention <num_heads = {}> (x, , , bq, bk, bv, , , , mask)
      co = MatMul(c, bo)
      memory = Add(y, co)
    }})",
                    kEye, matrices("a", unmasked), matrices("b", masked), unmasked.size(), masked.size()));
}

// After word w comes next[w]; the one cross-attention attends to the word `looks_for` in x, which is the memory's
// largest part.
void write_decoder(const test::TemporaryFolder& folder, const std::vector<size_t>& next, size_t looks_for) {
  write(folder, "decoder_model.onnx",
        fmt::format(R"(decoder (int64[b,t] input_ids, float[b,s,8] encoder_hidden_states,
                               int64[b,s] encoder_attention_mask) => (float[b,t,8] logits)
    <{}, {}, {}, {}, int64[2] axes = {{1, 2}}> {{
      x = Gather(eye, input_ids)
      m = Cast <to = 9> (encoder_attention_mask)
      mask = Unsqueeze(m, axes)
      a = ai.attune.Attention <num_heads = 1> (x, encoder_hidden_states, , aq, ak, av, , , , mask)
      ao_ = MatMul(a, ao)
      table = MatMul(x, next)
      little = Mul(ao_, small)
      logits = Add(table, little)
    }})",
                    kEye, constant("next", kWords, kWords, [&](size_t w, size_t f) { return same(next[w], f); }),
                    matrices("a", {{[&](size_t, size_t f) { return 60 * kRoot * same(f, looks_for); }, same, same}}),
                    "float[1] small = {0.001}"));
}

TensorMap sources(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> ids, mask;
  for (const auto& r : rows)
    for (const int64_t id : r) {
      ids.push_back(id);
      mask.push_back(id == 0 ? 0 : 1);
    }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
  return {{"input_ids", Tensor::from<int64_t>(shape, ids)}, {"attention_mask", Tensor::from<int64_t>(shape, mask)}};
}

class DiagnosisOfBuiltHeads : public testing::Test {
 protected:
  void SetUp() override {
    const HeadMatrices uniform{[](size_t, size_t) { return 0.0; }, same, same};
    const HeadMatrices to_padding{[](size_t, size_t f) { return 4 * kRoot * same(f, 0); }, same, same};
    write_encoder(folder_, {uniform, own_kind(60), to_padding, own_kind(1, 0)}, {own_kind(2), own_kind(1)});
    write_decoder(folder_, {3, 3, 3, 4, 5, 3, 3, 3}, 2);
    folder_.write("generation_config.json",
                  R"({"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "max_new_tokens": 11})");
    DiagnosisOptions options;
    options.regime = false;
    diagnosis_ = diagnose(folder_.path(), sources({{3, 4, 5, 6, 2}, {7, 3, 2, 0, 0}}), options);
  }
  const HeadDiagnosis& head(bool encoder, size_t layer, size_t head) const {
    for (const HeadDiagnosis& h : diagnosis_.heads)
      if (h.encoder == encoder && h.layer == layer && h.head == head) return h;
    throw std::out_of_range("no such head");
  }
  test::TemporaryFolder folder_;
  Diagnosis diagnosis_;
};

// Five queries of the first source see five words; three of the second see three words and two paddings.
TEST_F(DiagnosisOfBuiltHeads, EachHeadShowsItsSymptomAndNoOther) {
  EXPECT_THAT(head(true, 0, 0).symptoms, ElementsAre(HeadSymptom::kUniform, HeadSymptom::kPadding));
  EXPECT_THAT(head(true, 0, 1).symptoms, ElementsAre(HeadSymptom::kConcentrated));
  EXPECT_THAT(head(true, 0, 2).symptoms, ElementsAre(HeadSymptom::kPadding));
  EXPECT_THAT(head(true, 0, 3).symptoms, ElementsAre(HeadSymptom::kPadding, HeadSymptom::kDead));
  EXPECT_THAT(head(true, 1, 0).symptoms, IsEmpty());
  EXPECT_THAT(head(true, 1, 1).symptoms, IsEmpty());
  for (size_t h = 0; h < 6; ++h) EXPECT_EQ(diagnosis_.heads.at(h).queries, 8U) << h;
}

TEST_F(DiagnosisOfBuiltHeads, NumbersAreThoseOfTheFormulas) {
  EXPECT_THAT(head(true, 0, 0).entropy, DoubleNear(1, 1e-6));
  EXPECT_THAT(head(true, 0, 0).padding.value(), DoubleNear(2.0 / 5, 1e-6));
  EXPECT_THAT(head(true, 0, 0).diagonal, DoubleNear(0, 1e-6));
  EXPECT_THAT(head(true, 0, 1).concentrated, DoubleNear(1, 1e-9));
  EXPECT_THAT(head(true, 0, 1).self, DoubleNear(1, 1e-6));
  EXPECT_THAT(head(true, 0, 1).diagonal, DoubleNear(1, 1e-6));
  const double padding = 2 * std::exp(4.0) / (2 * std::exp(4.0) + 3);
  EXPECT_THAT(head(true, 0, 2).padding.value(), DoubleNear(padding, 1e-5));
  EXPECT_THAT(head(true, 0, 3).contribution, DoubleNear(0, 1e-9));
  const auto own = [](double score, double others) { return std::exp(score) / (std::exp(score) + others); };
  EXPECT_THAT(head(true, 1, 0).self, DoubleNear((5 * own(2, 4) + 3 * own(2, 2)) / 8, 1e-5));
  EXPECT_THAT(head(true, 1, 1).largest, DoubleNear((5 * own(1, 4) + 3 * own(1, 2)) / 8, 1e-5));
  EXPECT_THAT(head(true, 1, 1).padding.value(), DoubleNear(0, 1e-12));
}

TEST_F(DiagnosisOfBuiltHeads, SourcePositionsThatNobodyLooksAt) {
  ASSERT_EQ(diagnosis_.outputs.size(), 2U);
  EXPECT_THAT(diagnosis_.outputs[0].never_attended, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(diagnosis_.outputs[1].never_attended, ElementsAre(0, 1));
  EXPECT_THAT(diagnosis_.outputs[1].coverage,
              ElementsAre(DoubleNear(0, 1e-6), DoubleNear(0, 1e-6), DoubleNear(11, 1e-4)));
  EXPECT_THAT(head(false, 0, 0).one_position, DoubleNear(1, 1e-6));
}

TEST_F(DiagnosisOfBuiltHeads, OutputsThatRepeatThemselves) {
  EXPECT_THAT(diagnosis_.outputs[0].tokens, ElementsAre(3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4));
  const auto& repeat = diagnosis_.outputs[0].repeat;
  ASSERT_TRUE(repeat.has_value());
  EXPECT_EQ(repeat->at, 0U);
  EXPECT_EQ(repeat->length, 3U);
  EXPECT_EQ(repeat->times, 3U);
}

TEST_F(DiagnosisOfBuiltHeads, FormsSayTheSame) {
  const auto json = nlohmann::json::parse(diagnosis_json(diagnosis_));
  ASSERT_EQ(json["heads"].size(), 7U);
  EXPECT_EQ(json["heads"][3]["symptoms"], (std::vector<std::string>{"attends to padding", "dead"}));
  EXPECT_EQ(json["outputs"][1]["never_attended"], (std::vector<int>{0, 1}));
  const std::string text = diagnosis_text(diagnosis_, false);
  EXPECT_THAT(text, testing::HasSubstr("over-concentrated"));
  EXPECT_THAT(text, testing::HasSubstr("repeats 3 token(s) 3 times"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("encoder layer 1")));
  const AlignmentPicture picture = diagnosis_picture(diagnosis_);
  EXPECT_THAT(picture.rows, ElementsAre("encoder layer 0", "encoder layer 1", "cross layer 0"));
  EXPECT_EQ(picture.columns.at(0), "entropy 0");
  EXPECT_NEAR(picture.heads.at(0).weights.at(0), 1, 1e-6);
}

TEST(DiagnosisOfAHealthyModel, FindsNothing) {
  const test::TemporaryFolder folder;
  write_encoder(folder, {own_kind(2)}, {own_kind(1)});
  write_decoder(folder, {3, 3, 3, 4, 5, 2, 3, 3}, 7);  // 7 isn't there: all get the same
  folder.write("generation_config.json", R"({"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})");
  DiagnosisOptions options;
  options.regime = false;
  const Diagnosis d = diagnose(folder.path(), sources({{3, 4, 5, 6, 2}}), options);
  for (const HeadDiagnosis& h : d.heads)
    if (h.encoder) {
      EXPECT_THAT(h.symptoms, IsEmpty()) << h.layer;
      EXPECT_FALSE(h.padding.has_value());
    }
  EXPECT_THAT(d.outputs.at(0).never_attended, IsEmpty());
  EXPECT_FALSE(d.outputs.at(0).repeat.has_value());
}

TEST(DiagnosisOfAHealthyModel, MeasuresWhereTheTimeGoes) {
  const test::TemporaryFolder folder;
  write_encoder(folder, {own_kind(2)}, {own_kind(1)});
  write_decoder(folder, {3, 3, 3, 4, 5, 2, 3, 3}, 7);
  folder.write("generation_config.json", R"({"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})");
  DiagnosisOptions options;
  options.longest_source = 64;
  options.longest_target = 17;
  const Diagnosis d = diagnose(folder.path(), sources({{3, 4, 5, 6, 2}}), options);
  ASSERT_TRUE(d.regime.has_value());
  ASSERT_EQ(d.regime->encoder.size(), 3U);
  EXPECT_EQ(d.regime->step.size(), 3 * 4U);
  for (size_t i = 0; i < 3; ++i) {
    const RegimePoint& p = d.regime->encoder[i];
    EXPECT_EQ(p.source, 16 << i);
    EXPECT_GT(p.cost.attention_ms, 0);
    EXPECT_GT(p.cost.other_ms, 0);
    EXPECT_EQ(p.cost.score_bytes, 2 * 4.0 * static_cast<double>(p.source * p.source)) << "two layers of one head";
  }
  EXPECT_EQ(d.regime->step_crossings.size(), 3U);
}

TEST(Crossing, IsWhereTheFittedShareReachesOne) {
  // 0.1 + x / 1000 of the rest.
  EXPECT_NEAR(crossing({100, 200, 400}, {0.4, 0.9, 3.0}, {2, 3, 6}).value(), 900, 1e-6);
  EXPECT_EQ(crossing({100, 200}, {1, 1}, {2, 2}), std::nullopt);
  EXPECT_EQ(crossing({100, 200}, {5, 9}, {2, 3}).value(), 0);
  EXPECT_EQ(crossing({100}, {1}, {2}), std::nullopt);
}

}  // namespace
}  // namespace attune
