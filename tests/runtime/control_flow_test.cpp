// If, Loop, Scan and SequenceMap with bodies, run by the runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "runtime/plan.h"
#include "runtime/session.h"

namespace attune {
namespace {

TensorMap run(const std::string& text, TensorMap inputs, int opset = 21) {
  const std::string header = "<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + "]>\n";
  Session session(Plan::compile(parse_model(header + text)));
  return session.run(std::move(inputs));
}

Tensor floats(const Shape& shape, std::initializer_list<float> values) { return Tensor::from<float>(shape, values); }
Tensor integer(int64_t value) { return Tensor::scalar(value); }
std::vector<double> values(const TensorMap& outputs, const std::string& name) {
  return outputs.at(name).tensor().to_double();
}
using Values = std::vector<double>;

TEST(If, RunsOneBranchWithCapturedValues) {
  const std::string model = R"(
    g (bool c, float[N] x) => (float[N] y) {
      twice = Add(x, x)
      y = If (c) <then_branch = t () => (float[N] a) { a = Mul(twice, x) },
                  else_branch = e () => (float[N] b) { b = Neg(x) }>
    })";
  const auto at = [&](bool c) {
    return values(run(model, {{"c", Tensor::scalar(c)}, {"x", floats({2}, {1, 3})}}), "y");
  };
  EXPECT_EQ(at(true), (Values{2, 18}));
  EXPECT_EQ(at(false), (Values{-1, -3}));
}

const char* const kLoop = R"(
  g (int64 n, bool c, float[2] x) => (float[2] last, float[K,2] all) {
    last, all = Loop (n, c, x) <body = b (int64 i, bool go, float[2] s) => (bool more, float[2] next, float[2] out) {
      next = Add(s, x)
      limit = Constant <value = float {10.0}> ()
      top = ReduceMax <keepdims = 0> (next)
      more = Less(top, limit)
      f = Cast <to = 1> (i)
      out = Mul(s, f)
    }>
  })";

TEST(Loop, TripCountConditionStatesAndScans) {
  const auto loop = [&](int64_t n, bool c) {
    return run(kLoop, {{"n", integer(n)}, {"c", Tensor::scalar(c)}, {"x", floats({2}, {1, 2})}});
  };
  const TensorMap three = loop(3, true);
  EXPECT_EQ(values(three, "last"), (Values{4, 8}));
  EXPECT_EQ(values(three, "all"), (Values{0, 0, 2, 4, 6, 12}));
  const TensorMap stopped = loop(100, true);  // 2, 4, 6, 8, 10: stops where it isn't below 10
  EXPECT_EQ(values(stopped, "last"), (Values{5, 10}));
  EXPECT_EQ(stopped.at("all").tensor().shape(), (Shape{4, 2}));
  const TensorMap none = loop(0, true), never = loop(5, false);
  for (const TensorMap* outputs : {&none, &never}) {
    EXPECT_EQ(values(*outputs, "last"), (Values{1, 2}));
    EXPECT_EQ(outputs->at("all").tensor().shape(), (Shape{0, 2}));
  }
}

TEST(Loop, WithoutConditionRunsItsCount) {
  const std::string model = R"(
    g (int64 n) => (int64 y) {
      zero = Constant <value = int64 {0}> ()
      y = Loop (n, , zero) <body = b (int64 i, bool go, int64 s) => (bool no, int64 next) {
        no = Constant <value = bool {0}> ()
        next = Add(s, i)
      }>
    })";
  EXPECT_EQ(values(run(model, {{"n", integer(5)}}), "y"), (Values{10}));
}

TEST(Loop, CarriesSequences) {
  const std::string model = R"(
    g (int64 n) => (int64[M] y) {
      empty = SequenceEmpty <dtype = 7> ()
      list = Loop (n, , empty) <body = b (int64 i, bool go, seq(int64[1]) s) => (bool more, seq(int64[1]) t) {
        more = Identity(go)
        axes = Constant <value = int64[1] {0}> ()
        square = Mul(i, i)
        item = Unsqueeze(square, axes)
        t = SequenceInsert(s, item)
      }>
      y = ConcatFromSequence <axis = 0> (list)
    })";
  EXPECT_EQ(values(run(model, {{"n", integer(4)}}), "y"), (Values{0, 1, 4, 9}));
}

TEST(Scan, AxesAndDirections) {
  // Running sums over the columns of x, from the last to the first; outputs as columns, in reverse.
  const std::string model = R"(
    g (float[2] s, float[2,T] x) => (float[2] total, float[2,T] sums) {
      total, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                          scan_output_axes = [-1], scan_output_directions = [1],
                          body = b (float[2] state, float[2] column) => (float[2] next, float[2] out) {
        next = Add(state, column)
        out = Identity(next)
      }> (s, x)
    })";
  const TensorMap got = run(model, {{"s", floats({2}, {100, 200})}, {"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  EXPECT_EQ(values(got, "total"), (Values{106, 215}));
  EXPECT_EQ(values(got, "sums"), (Values{106, 105, 103, 215, 211, 206}));
  const TensorMap empty = run(model, {{"s", floats({2}, {1, 2})}, {"x", floats({2, 0}, {})}});
  EXPECT_EQ(values(empty, "total"), (Values{1, 2}));
  EXPECT_EQ(empty.at("sums").tensor().shape(), (Shape{2, 0}));
}

TEST(Scan, Opset8HasBatchesAndLengths) {
  const std::string model = R"(
    g (int64[B] lengths, float[B,1] s, float[B,T,1] x) => (float[B,1] total, float[B,T,1] sums) {
      total, sums = Scan <num_scan_inputs = 1, body = b (float[1] state, float[1] item) => (float[1] next, float[1] out) {
        next = Add(state, item)
        out = Identity(next)
      }> (lengths, s, x)
    })";
  const TensorMap got = run(model,
                            {{"lengths", Tensor::from<int64_t>({2}, {3, 2})},
                             {"s", floats({2, 1}, {0, 10})},
                             {"x", floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})}},
                            8);
  EXPECT_EQ(values(got, "total"), (Values{6, 19}));
  EXPECT_EQ(values(got, "sums"), (Values{1, 3, 6, 14, 19, 0}));
}

TEST(SequenceMap, MapsSequencesTogether) {
  const std::string model = R"(
    g (float[N] a, float[N] b) => (float[M] y) {
      first = SequenceConstruct(a, b)
      second = SequenceConstruct(b, b)
      sums = SequenceMap (first, second, a) <body = f (float[N] u, float[N] v, float[N] w) => (float[N] z) {
        t = Add(u, v)
        z = Mul(t, w)
      }>
      y = ConcatFromSequence <axis = 0> (sums)
    })";
  EXPECT_EQ(values(run(model, {{"a", floats({2}, {1, 2})}, {"b", floats({2}, {3, 4})}}), "y"), (Values{4, 12, 6, 16}));
}

TEST(Scan, Opset8RefusesWhatDoesNotFitAndTakesNothing) {
  const std::string model = R"(
    g (int64[L] lengths, float[B,1] s, float[C,T,1] x, float[D,U,1] z) => (float[B,1] total, float[B,T,1] sums) {
      total, sums = Scan <num_scan_inputs = 2, body = b (float[1] state, float[1] item, float[1] other)
                                                      => (float[1] next, float[1] out) {
        more = Add(item, other)
        next = Add(state, more)
        out = Identity(next)
      }> (lengths, s, x, z)
    })";
  const auto scan = [&](const std::vector<int64_t>& lengths, const Shape& s, const Shape& x, const Shape& z) {
    const auto zeros = [](const Shape& shape) {
      return Tensor::from<float>(shape, std::vector<float>(static_cast<size_t>(shape.count())));
    };
    return run(model,
               {{"lengths", Tensor::from<int64_t>({static_cast<int64_t>(lengths.size())}, lengths)},
                {"s", zeros(s)},
                {"x", zeros(x)},
                {"z", zeros(z)}},
               8);
  };
  const TensorMap none = scan({}, {0, 1}, {0, 3, 1}, {0, 3, 1});
  EXPECT_EQ(none.at("total").tensor().shape(), (Shape{0, 1}));
  EXPECT_EQ(none.at("sums").tensor().shape(), (Shape{0, 3, 1}));
  EXPECT_EQ(scan({0, 0}, {2, 1}, {2, 3, 1}, {2, 3, 1}).at("sums").tensor().shape(), (Shape{2, 3, 1}));
  EXPECT_THROW(scan({3}, {2, 1}, {2, 3, 1}, {2, 3, 1}), Error);
  EXPECT_THROW(scan({3, 4}, {2, 1}, {2, 3, 1}, {2, 3, 1}), Error);
  EXPECT_THROW(scan({3, 3}, {1, 1}, {2, 3, 1}, {2, 3, 1}), Error);
  EXPECT_THROW(scan({3, 3}, {2, 1}, {2, 3, 1}, {1, 3, 1}), Error);
  EXPECT_THROW(scan({3, 3}, {2, 1}, {2, 3, 1}, {2, 2, 1}), Error);
}

}  // namespace
}  // namespace attune
