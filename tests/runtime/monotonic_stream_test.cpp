// Decoding while the source arrives gives what the whole source gives.
#include "runtime/monotonic_stream.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/io/text.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::error_of;
using testing::ElementsAreArray;
using testing::HasSubstr;

// Heads and attributes of a decoder of one attention, which adds its context and an input of each step to its state.
struct StepForm {
  int64_t heads = 1, chunk = 1;
  bool projects = false;
};

Model recurrent_step(const StepForm& form) {
  const int64_t width = 4 * form.heads;
  const std::string weight = form.projects ? "w" : "";
  return parse_model(fmt::format(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    g (float[1, n, {0}] source, int64[1, {1}] at, float[1, 1, {0}] state, float[1, 1, {0}] drive, float[{0}, {0}] w)
      => (float[1, 1, {0}] context, float[1, 1, {0}] new_state, int64[1, {1}] next) {{
      context, , , , next = ai.attune.Attention <alignment = "monotonic", num_heads = {1}, chunk = {2}>
        (state, source, , , {3}, , , , , , , , , , , at)
      old = Constant <value_float = 0.7> ()
      kept = Mul (state, old)
      turned = MatMul (context, w)
      sum = Add (kept, turned)
      driven = Add (sum, drive)
      new_state = Sin (driven)
    }})",
                                 width, form.heads, form.chunk, weight));
}

Tensor random_states(const Shape& shape, uint32_t seed) {
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-0.2F);
  std::generate_n(t.mutable_data<float>(), t.count(), [&] { return normal(random); });
  return t;
}

Tensor rows(const Tensor& states, int64_t first, int64_t count) {
  const int64_t width = states.dim(2);
  return Tensor::from<float>({1, count, width}, std::span<const float>(states.data<float>() + first * width,
                                                                       static_cast<size_t>(count * width)));
}

Tensor drive(int64_t width, int step) { return random_states({1, 1, width}, 100 + static_cast<uint32_t>(step)); }

// What a decoder gave step by step.
struct Track {
  std::vector<int64_t> positions;
  std::vector<float> contexts;

  void add(const TensorMap& outputs) {
    for (const int64_t p : outputs.at("next").tensor().values<int64_t>()) positions.push_back(p);
    for (const float x : outputs.at("context").tensor().values<float>()) contexts.push_back(x);
  }
};

// `steps` steps over the whole source at once.
Track run_whole(const Model& model, const Tensor& source, const Tensor& w, const Tensor& start, int64_t heads,
                int steps) {
  PlanOptions options;
  options.fixed_inputs = {"source"};
  Session session(Plan::compile(model, options));
  session.fix({{"source", source}});
  Datum state = start, at = Tensor::from<int64_t>({1, heads}, std::vector<int64_t>(static_cast<size_t>(heads), 0));
  Track track;
  for (int i = 0; i < steps; ++i) {
    TensorMap outputs = session.run({{"state", state}, {"at", at}, {"w", w}, {"drive", drive(w.dim(0), i)}});
    track.add(outputs);
    state = outputs.at("new_state");
    at = outputs.at("next");
  }
  return track;
}

// Streams pieces of `piece` positions; `held` gets the most that was held.
Track run_stream(MonotonicStream& stream, const Tensor& source, const Tensor& w, const Tensor& start, int64_t piece,
                 int steps, int64_t& held) {
  Track track;
  held = 0;
  for (int i = 0; i < steps; ++i) {
    TensorMap inputs{{"w", w}, {"drive", drive(w.dim(0), i)}};
    if (i == 0) inputs["state"] = start;
    auto outputs = stream.step(std::move(inputs));
    while (!outputs) {
      const int64_t left = source.dim(1) - stream.read();
      if (left == 0) {
        stream.finish();
      } else {
        stream.append({{"source", rows(source, stream.read(), std::min(left, piece))}});
        held = std::max(held, stream.read() - stream.first_held());
      }
      outputs = stream.resume();
    }
    track.add(*outputs);
  }
  return track;
}

const MonotonicStreamOptions kStates{.states = {{"state", "new_state"}}};

struct StreamCase {
  StepForm form;
  int64_t piece;
};

class MonotonicStreams : public testing::TestWithParam<StreamCase> {};

TEST_P(MonotonicStreams, GiveWhatTheWholeSourceGives) {
  const auto& [form, piece] = GetParam();
  const int64_t width = 4 * form.heads, length = 300;
  const Model model = recurrent_step(form);
  const Tensor source = random_states({1, length, width}, 1), w = random_states({width, width}, 2),
               start = random_states({1, 1, width}, 3);
  const int steps = 200;
  const Track whole = run_whole(model, source, w, start, form.heads, steps);
  MonotonicStream stream(model, kStates);
  int64_t held = 0;
  const Track track = run_stream(stream, source, w, start, piece, steps, held);
  EXPECT_EQ(track.positions, whole.positions);
  EXPECT_THAT(track.contexts, testing::Pointwise(testing::FloatNear(1e-5F), whole.contexts));
  EXPECT_GT(whole.positions.back(), 50);  // the decoder does move
  if (form.heads == 1) {
    EXPECT_LE(held, piece + form.chunk - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, MonotonicStreams,
                         testing::Values(StreamCase{{}, 1}, StreamCase{{}, 7}, StreamCase{{.chunk = 5}, 1},
                                         StreamCase{{.chunk = 5}, 3}, StreamCase{{.chunk = 40}, 16},
                                         StreamCase{{.heads = 3, .chunk = 2}, 4},
                                         StreamCase{{.heads = 2, .projects = true}, 11},
                                         StreamCase{{.chunk = 3, .projects = true}, 1000}));

// A step over the first layer's context reads the same source, behind it or before it.
TEST(MonotonicStream, LayersReadEachAtItsOwnPlace) {
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    g (float[1, n, 4] source, int64[1, 1] at, int64[1, 1] at2, float[1, 1, 4] state, float[4, 4] w)
      => (float[1, 1, 4] context, float[1, 1, 4] new_state, int64[1, 1] next, int64[1, 1] next2) {
      first, , , , next = ai.attune.Attention <alignment = "monotonic", chunk = 3> (state, source, , , , , , , , , , , , , , at)
      query = Sub (first, state)
      context, , , , next2 = ai.attune.Attention <alignment = "monotonic", chunk = 2> (query, source, , , w, , , , , , , , , , , at2)
      turned = MatMul (context, w)
      sum = Add (first, turned)
      new_state = Sin (sum)
    })");
  const Tensor source = random_states({1, 200, 4}, 5), w = random_states({4, 4}, 6),
               start = random_states({1, 1, 4}, 7);
  const int steps = 150;
  Track whole;
  {
    Session session(Plan::compile(model));
    Datum state = start, at = Tensor::from<int64_t>({1, 1}, {0}), at2 = at;
    for (int i = 0; i < steps; ++i) {
      TensorMap outputs = session.run({{"source", source}, {"state", state}, {"at", at}, {"at2", at2}, {"w", w}});
      whole.add(outputs);
      whole.positions.push_back(outputs.at("next2").tensor().data<int64_t>()[0]);
      state = outputs.at("new_state");
      at = outputs.at("next");
      at2 = outputs.at("next2");
    }
  }
  MonotonicStream stream(model, kStates);
  Track track;
  for (int i = 0; i < steps; ++i) {
    TensorMap inputs{{"w", w}};
    if (i == 0) inputs["state"] = start;
    auto outputs = stream.step(std::move(inputs));
    while (!outputs) {
      if (stream.read() == source.dim(1)) {
        stream.finish();
      } else {
        stream.append({{"source", rows(source, stream.read(), std::min<int64_t>(3, source.dim(1) - stream.read()))}});
      }
      outputs = stream.resume();
    }
    track.add(*outputs);
    track.positions.push_back(outputs->at("next2").tensor().data<int64_t>()[0]);
  }
  EXPECT_EQ(track.positions, whole.positions);
  EXPECT_THAT(track.contexts, testing::Pointwise(testing::FloatNear(1e-5F), whole.contexts));
}

// Numbers that sums of float32 hold exactly: every order of summation gives the same.
float coarse(std::mt19937& random) { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 8; }

// A position of the source: 1, so that a query can say how seldom it is answered, and coarse numbers.
void make_position(std::mt19937& random, float* row, int64_t width) {
  row[0] = 1;
  for (int64_t e = 1; e < width; ++e) row[e] = coarse(random);
}

// A million positions, seen as they are made, against the definition written out; memory stays what it was early on.
TEST(MonotonicStream, ReadsAMillionPositionsInConstantMemory) {
  constexpr int64_t kLength = 1000000, kPiece = 512, kWidth = 4;
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    g (float[1, n, 4] source, int64[1, 1] at, float[1, 1, 4] query) => (float[1, 1, 4] context, int64[1, 1] next) {
      context, , , , next = ai.attune.Attention <alignment = "monotonic", chunk = 2, score = "dot"> (query, source, , , , , , , , , , , , , , at)
    })");
  std::mt19937 random(1), again(1), queries(2);
  MonotonicStream stream(model);
  int64_t expected = 0, seen = 0, steps = 0;  // where the definition stands, and what of the source it has made
  std::vector<float> last(2 * kWidth, 0);     // positions expected - 1 and expected
  size_t early = 0;
  int64_t held = 0;
  while (!stream.at_end()) {
    std::vector<float> q(kWidth);
    for (float& x : q) x = queries() % 2 ? 1.0F : -1.0F;
    q[0] = -2.25F;  // about one position in a hundred answers
    auto outputs = stream.step({{"query", Tensor::from<float>({1, 1, kWidth}, std::span<const float>(q))}});
    while (!outputs) {
      if (stream.read() == kLength) {
        stream.finish();
      } else {
        const int64_t n = std::min(kPiece, kLength - stream.read());
        Tensor piece = Tensor::allocate(DataType::kFloat, {1, n, kWidth});
        for (int64_t i = 0; i < n; ++i) make_position(random, piece.mutable_data<float>() + i * kWidth, kWidth);
        stream.append({{"source", piece}});
        held = std::max(held, stream.read() - stream.first_held());
        if (stream.read() == 20 * kPiece) early = stream.peak_bytes();
      }
      outputs = stream.resume();
    }
    // The definition: the first position from `expected` on whose score isn't negative.
    const auto score = [&](size_t row) {
      float s = 0;
      for (size_t e = 0; e < kWidth; ++e) s += q[e] * last[row * kWidth + e];
      return s;
    };
    const auto advance = [&] {
      std::copy_n(last.begin() + kWidth, kWidth, last.begin());
      make_position(again, last.data() + kWidth, kWidth);
      expected = seen++;
    };
    if (seen == 0) advance();
    while (expected < kLength && score(1) < 0) {
      if (seen == kLength) {
        expected = kLength;
      } else {
        advance();
      }
    }
    ASSERT_EQ(outputs->at("next").tensor().data<int64_t>()[0], expected) << "step " << steps;
    if (expected < kLength) {
      const double before = expected > 0 ? std::exp(score(0) - score(1)) : 0, w = 1 / (1 + before);
      for (size_t e = 0; e < kWidth; ++e)
        ASSERT_NEAR(outputs->at("context").tensor().data<float>()[e], w * last[kWidth + e] + w * before * last[e], 1e-5)
            << "step " << steps;
    }
    ++steps;
  }
  EXPECT_EQ(stream.read(), kLength);
  EXPECT_GT(steps, kLength / 400);
  EXPECT_LE(held, kPiece + 1);
  EXPECT_GT(early, 0U);
  EXPECT_EQ(stream.peak_bytes(), early);
}

TEST(MonotonicStream, ReplicasStartAnew) {
  const Model model = recurrent_step({.chunk = 2});
  const Tensor source = random_states({1, 50, 4}, 1), w = random_states({4, 4}, 2), start = random_states({1, 1, 4}, 3);
  MonotonicStream stream(model, kStates);
  int64_t held = 0;
  const Track first = run_stream(stream, source, w, start, 5, 20, held);
  MonotonicStream other = stream.replica();
  EXPECT_EQ(run_stream(other, source, w, start, 9, 20, held).positions, first.positions);
}

TEST(MonotonicStream, SaysWhatItCanNotStream) {
  const auto why = [](const std::string& inputs, const std::string& node) {
    return error_of([&] {
      MonotonicStream(
          parse_model("<ir_version: 10, opset_import: [\"\" : 18, \"ai.attune\" : 1]> g (float[1, n, 4] s, " + inputs +
                      ") => (float[1, 1, 4] c, int64[1, 1] next) { " + node + " }"));
    });
  };
  const std::string query = "float[1, 1, 4] q, int64[1, 1] at";
  EXPECT_EQ(why(query,
                "c, , , , next = ai.attune.Attention <alignment = \"monotonic\"> (q, s, , , , , , , , , , , , , , at)"),
            "no error");
  EXPECT_THAT(why(query,
                  "c, , , , next = ai.attune.Attention <alignment = \"monotonic\", causal = 1> (q, s, , , , , , , , , "
                  ", , , , , at)"),
              HasSubstr("it counts positions"));
  EXPECT_THAT(
      why(query + ", bool[n] m",
          "c, , , , next = ai.attune.Attention <alignment = \"monotonic\"> (q, s, , , , , , , , m, , , , , , at)"),
      HasSubstr("it has a mask"));
  EXPECT_THAT(why(query,
                  "k = Relu(s) c, , , , next = ai.attune.Attention <alignment = \"monotonic\"> (q, k, , , , , , , , , "
                  ", , , , , at)"),
              HasSubstr("its key isn't an input of the graph"));
  EXPECT_THAT(
      why("float[1, t, 4] q, int64[1, 1] at",
          "c, , , , next = ai.attune.Attention <alignment = \"monotonic\"> (q, s, , , , , , , , , , , , , , at)"),
      HasSubstr("it isn't for one query"));
  EXPECT_THAT(why(query,
                  "d, , , , next = ai.attune.Attention <alignment = \"monotonic\"> (q, s, , , , , , , , , , , , , , "
                  "at) m = ReduceMax(s) c = Add(d, m)"),
              HasSubstr("reads input 's', too"));
  EXPECT_THAT(why(query, "c = Identity(q) next = Identity(at)"), HasSubstr("no ai.attune Attention of alignment"));
}

TEST(MonotonicStream, SaysWhatIsWrongWithACall) {
  MonotonicStream stream(recurrent_step({}), kStates);
  const Tensor w = random_states({4, 4}, 2);
  EXPECT_THAT(error_of([&] { stream.resume(); }), HasSubstr("no step waits"));
  EXPECT_THAT(error_of([&] { stream.append({}); }), HasSubstr("input 'source' is missing"));
  EXPECT_THAT(error_of([&] { stream.append({{"source", random_states({2, 3, 4}, 1)}}); }), HasSubstr("batch 1"));
  stream.append({{"source", random_states({1, 0, 4}, 1)}});
  EXPECT_THAT(error_of([&] {
                stream.append({{"source", random_states({1, 3, 5}, 1)}});
              }),
              HasSubstr("expected (1,3,4)"));
  EXPECT_THAT(error_of([&] { stream.step({{"drive", drive(4, 0)}}); }), HasSubstr("input 'w'"));
  EXPECT_FALSE(stream.step({{"w", w}, {"drive", drive(4, 0)}}).has_value());
  EXPECT_THAT(error_of([&] { stream.step({{"w", w}}); }), HasSubstr("a step waits"));
  stream.finish();
  EXPECT_TRUE(stream.resume().has_value());  // an empty source: context 0
  EXPECT_TRUE(stream.at_end());
  EXPECT_THAT(error_of([&] { stream.append({{"source", random_states({1, 3, 4}, 1)}}); }), HasSubstr("after the end"));
  EXPECT_THAT(error_of([] {
                MonotonicStream(recurrent_step({}), {.states = {{"other", "new_state"}}});
              }),
              HasSubstr("state 'other'"));
}

}  // namespace
}  // namespace attune
