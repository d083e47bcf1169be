// table[bucket(key - query)]^T  =  RelativePositionBias(table), where the graph's bucket function is T5's, or clips
// distances: it is evaluated, whatever operators compute it, and compared over distances of both signs
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "ops/support/relative_position_buckets.h"
#include "passes/attention_node.h"
#include "passes/mask_analysis.h"
#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/size_builder.h"
#include "passes/uniform_value.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

constexpr int kMaxDepth = 64;
constexpr int64_t kNear = 600;              // all distances up to here are compared,
constexpr int64_t kFar = int64_t{1} << 20;  // then the powers of two up to here and their neighbours

std::vector<int64_t> distances() {
  std::vector<int64_t> out;
  for (int64_t d = -kNear; d <= kNear; ++d) out.push_back(d);
  for (int64_t d = 1024; d <= kFar; d *= 2)
    for (const int64_t near : {d - 1, d, d + 1}) {
      out.push_back(near);
      out.push_back(-near);
    }
  return out;
}

// The values of an elementwise function of key - query.
class BucketFunction {
 public:
  BucketFunction(const Inference& inference, std::vector<int64_t> distances)
      : inference_(inference),
        distances_(std::move(distances)),
        lowest_(distances_.size(), -INFINITY),
        highest_(distances_.size(), INFINITY) {}

  // The buckets of the distances; nothing if `v` isn't such a function.
  const std::vector<double>* evaluate(const Value* v, int depth = 0) {
    if (depth > kMaxDepth) return nullptr;
    if (!known_.contains(v)) known_.emplace(v, compute(*v, depth + 1));
    const std::vector<double>& values = known_.at(v);
    return values.empty() ? nullptr : &values;
  }

  // The tensor of distances (Tq, Tk) that the function starts from, and what is added to queries.
  const Value* base() const { return base_; }
  const Dim& offset() const { return offset_; }
  const std::set<double>& numbers() const { return numbers_; }  // constants of the function

 private:
  std::vector<double> compute(const Value& v, int depth) {
    if (const auto number = uniform_value(&v, inference_)) {
      numbers_.insert(*number);
      return std::vector<double>(distances_.size(), *number);
    }
    if (is_integer(v.element_type()) && v.tensor_type().rank() == 2)
      if (auto values = positions(v); !values.empty()) return values;
    const Node* n = v.producer();
    return n && n->domain().empty() ? node(*n, depth) : std::vector<double>();
  }

  // key - query - offset, or its opposite.
  std::vector<double> positions(const Value& v) {
    const auto index = [&](int axis) {
      return v.tensor_type().dim(axis).is(1) ? Dim(0) : index_symbol(static_cast<size_t>(axis));
    };
    const Dim e = analyze_integers(v, inference_), query = index(0), key = index(1);
    const auto is_free = [](const Dim& d) {
      for (const std::string& symbol : d.symbols())
        if (symbol.starts_with("@")) return false;
      return d.known();
    };
    for (const int sign : {1, -1}) {
      const Dim offset = key - query - (sign > 0 ? e : Dim(0) - e);
      if (!is_free(offset) || (base_ && !is_based_on(v, offset))) continue;
      if (!base_) base_ = &v;
      offset_ = offset;
      std::vector<double> out;
      for (const int64_t d : distances_) out.push_back(static_cast<double>(sign * d));
      return out;
    }
    return {};
  }

  // One distance only: a row of keys, or a column of queries, is none beside it.
  bool is_based_on(const Value& v, const Dim& offset) const {
    return offset == offset_ && v.tensor_type().shape == base_->tensor_type().shape;
  }

  std::vector<double> node(const Node& n, int depth) {
    std::vector<const std::vector<double>*> inputs;
    const size_t count = n.is("Expand") ? 1 : n.is("Clip") ? 3 : n.inputs().size();
    const auto f = operation(n, count);
    if (!f) return {};
    for (size_t i = 0; i < count; ++i) {
      const std::vector<double>& unbounded = i == 1 ? lowest_ : highest_;
      inputs.push_back(n.input(i) ? evaluate(n.input(i), depth) : &unbounded);
      if (!inputs.back()) return {};
    }
    std::vector<double> out(distances_.size()), x(inputs.size());
    const DataType type = n.output()->element_type();
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) x[j] = (*inputs[j])[i];
      out[i] = rounded(f(x), type);
    }
    return out;
  }

  static double rounded(double v, DataType type) {
    if (type == DataType::kFloat) return static_cast<double>(static_cast<float>(v));
    if (type == DataType::kFloat16) return static_cast<double>(static_cast<float>(Float16(static_cast<float>(v))));
    if (type == DataType::kBool) return v != 0 ? 1 : 0;
    // What doesn't fit (the logarithm of 0) isn't looked at where the original is right.
    if (is_integer(type)) return std::abs(v) < 9e15 ? std::trunc(v) : -9e15;
    return v;
  }

  using Function = std::function<double(const std::vector<double>&)>;
  static Function operation(const Node& n, size_t operands) {
    using X = const std::vector<double>&;
    static const std::map<std::string, std::pair<size_t, Function>, std::less<>> kOperations = {
        {"Identity", {1, [](X x) { return x[0]; }}},
        {"Cast", {1, [](X x) { return x[0]; }}},
        {"Expand", {1, [](X x) { return x[0]; }}},
        {"Abs", {1, [](X x) { return std::abs(x[0]); }}},
        {"Neg", {1, [](X x) { return -x[0]; }}},
        {"Not", {1, [](X x) { return x[0] == 0 ? 1.0 : 0.0; }}},
        {"Floor", {1, [](X x) { return std::floor(x[0]); }}},
        {"Log", {1, [](X x) { return static_cast<double>(std::log(static_cast<float>(x[0]))); }}},
        {"Add", {2, [](X x) { return x[0] + x[1]; }}},
        {"Sub", {2, [](X x) { return x[0] - x[1]; }}},
        {"Mul", {2, [](X x) { return x[0] * x[1]; }}},
        {"Div", {2, [](X x) { return x[0] / x[1]; }}},
        {"Min", {2, [](X x) { return std::min(x[0], x[1]); }}},
        {"Max", {2, [](X x) { return std::max(x[0], x[1]); }}},
        {"Less", {2, [](X x) { return x[0] < x[1] ? 1.0 : 0.0; }}},
        {"LessOrEqual", {2, [](X x) { return x[0] <= x[1] ? 1.0 : 0.0; }}},
        {"Greater", {2, [](X x) { return x[0] > x[1] ? 1.0 : 0.0; }}},
        {"GreaterOrEqual", {2, [](X x) { return x[0] >= x[1] ? 1.0 : 0.0; }}},
        {"And", {2, [](X x) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0.0; }}},
        {"Or", {2, [](X x) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0.0; }}},
        {"Clip", {3, [](X x) { return std::min(std::max(x[0], x[1]), x[2]); }}},
        {"Where", {3, [](X x) { return x[0] != 0 ? x[1] : x[2]; }}}};
    const auto it = kOperations.find(n.type());
    return it != kOperations.end() && it->second.first == operands ? it->second.second : Function();
  }

  const Inference& inference_;
  std::vector<int64_t> distances_;
  std::vector<double> lowest_, highest_;  // what a Clip has no bound by
  std::map<const Value*, std::vector<double>> known_;
  std::set<double> numbers_;
  const Value* base_ = nullptr;
  Dim offset_;
};

struct Parameters {
  int64_t max_distance;
  bool bidirectional;
};

// Largest distances worth trying: log(max_distance / exact) is a constant of the original; else any.
std::vector<int64_t> max_distances(int64_t exact, const std::set<double>& numbers) {
  constexpr int64_t kLargest = 4096;
  std::vector<int64_t> out;
  for (const double c : numbers) {
    const double distance = static_cast<double>(exact) * std::exp(c);
    if (c > 0 && distance <= kLargest && std::abs(distance - std::round(distance)) < 1e-3)
      out.push_back(std::llround(distance));
  }
  for (int64_t d = exact + 1; d <= kLargest; ++d) out.push_back(d);
  return out;
}

// The parameters with which T5's function gives `found` for `distances`.
std::optional<Parameters> parameters_of(int64_t buckets, const std::vector<int64_t>& distances,
                                        const std::vector<double>& found, const std::set<double>& numbers) {
  for (const bool bidirectional : {true, false}) {
    if (buckets < (bidirectional ? 4 : 2)) continue;
    const int64_t exact = (bidirectional ? buckets / 2 : buckets) / 2;
    for (const int64_t max_distance : max_distances(exact, numbers)) {
      const RelativePositionBuckets bucket(buckets, max_distance, bidirectional);
      bool same = true;
      for (size_t i = 0; same && i < found.size(); ++i) same = static_cast<double>(bucket(distances[i])) == found[i];
      if (same) return Parameters{max_distance, bidirectional};
    }
  }
  return std::nullopt;
}

// A function that stays the same from some distance on, both ways: T5's is a superset of these, with a row for each
// distance up to there, and one row that all buckets behind have.
struct ClippedFunction {
  std::vector<int64_t> rows;  // of the table, for each of T5's buckets
  int64_t last;               // distance that is told apart
};

std::optional<ClippedFunction> clipped_function(const std::vector<int64_t>& distances, const std::vector<double>& found,
                                                int64_t table_rows) {
  std::map<int64_t, int64_t> row_at;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto row = static_cast<int64_t>(found[i]);
    if (row < -table_rows || row >= table_rows) return std::nullopt;
    row_at[distances[i]] = row < 0 ? row + table_rows : row;
  }
  int64_t last = 0;
  for (const auto& [distance, row] : row_at)
    if (row != row_at.at(distance < 0 ? -kFar : kFar)) last = std::max(last, std::abs(distance) + 1);
  if (last >= kNear) return std::nullopt;
  ClippedFunction out{{}, last};
  for (const int64_t side : {-1, 1})  // keys in front of the query and itself, keys behind it
    for (int64_t bucket = 0; bucket < 2 * (last + 1); ++bucket)
      out.rows.push_back(row_at.at(bucket <= last ? side * bucket : side * kFar));
  return out;
}

Value* bias_node(Builder& b, std::vector<Value*> inputs, const Parameters& p) {
  return b
      .node(std::string(kAttuneDomain), "RelativePositionBias", std::move(inputs), 1,
            {{"max_distance", p.max_distance}, {"bidirectional", int64_t{p.bidirectional ? 1 : 0}}})
      ->output();
}

Outcome rewrite(const Match& m, Builder& b, Graph& outermost) {
  const Value& table = *m["table"];
  if (!table.constant())
    return m.refuse("table", fmt::format("{} is not a constant table of buckets and heads", table.type().to_string()));
  const Node* batched = m.node("bias");
  if (batched && axes_of(*batched, m.inference()) != std::vector<int64_t>{0})
    return m.refuse("bias", "does not get its axis of batches first");
  if (!batched && m.root()->uses().size() == 1 && m.root()->uses()[0].node->is("Unsqueeze"))
    return m.refuse("heads first", "gets its axis of batches yet");
  const std::vector<int64_t> compared = distances();
  BucketFunction function(m.inference(), compared);
  const auto* found = function.evaluate(m["buckets"]);
  if (!found || !function.base() || m["buckets"]->tensor_type().shape != function.base()->tensor_type().shape)
    return m.refuse("buckets", "is not a function of the distance between key and query alone");
  const int64_t buckets = table.constant()->dim(0);
  auto parameters = parameters_of(buckets, compared, *found, function.numbers());
  const auto clipped = parameters ? std::nullopt : clipped_function(compared, *found, buckets);
  if (!parameters && !clipped)
    return m.refuse("buckets", "is neither T5's function of the distance nor one that stays the same from some on");
  SizeBuilder sizes(outermost, &b.inference());
  const TensorType& base = function.base()->tensor_type();
  if (!sizes.can_compute(base.dim(0)) || !sizes.can_compute(base.dim(1)) || !sizes.can_compute(function.offset()) ||
      !function.offset().at_least(0))
    return m.refuse("buckets",
                    fmt::format("{} queries, {} keys and the first query's position {} are not known by the "
                                "sizes of inputs",
                                base.dim(0).to_string(), base.dim(1).to_string(), function.offset().to_string()));
  Value* rows = m["table"];
  if (clipped) {
    rows = b.op("Gather", {rows, b.integers(clipped->rows)});
    parameters = Parameters{4 * (clipped->last + 1), true};
  }
  std::vector<Value*> inputs{rows, sizes.scalar(base.dim(0)), sizes.scalar(base.dim(1)), nullptr};
  if (!function.offset().is(0)) inputs[3] = sizes.scalar(function.offset());
  Value* bias = bias_node(b, std::move(inputs), *parameters);
  Outcome outcome(batched ? bias : b.squeeze(bias, {0}));
  return outcome.detail(clipped ? fmt::format("distances up to {}", clipped->last)
                                : fmt::format("{} buckets up to distance {}", buckets, parameters->max_distance));
}

// ONNX Runtime's operator, whose table is (buckets, heads) in column-major order.
Outcome rewrite_microsoft(const Match& m, Builder& b) {
  const Value& table = *m["table"];
  if (!table.constant()) return m.refuse("table", "is not a constant table");
  const int64_t buckets = table.constant()->dim(0), heads = table.constant()->dim(1);
  const Node& n = *m.node("theirs");
  const Parameters parameters{n.attr_int("max_distance", 128), n.attr_int("is_bidirectional", 0) != 0};
  Value* ours = b.transpose(b.reshape(m["table"], {heads, buckets}), {1, 0});
  return bias_node(b, {ours, m["queries"], m["keys"]}, parameters);
}

}  // namespace

size_t fuse_position_bias(PassContext& context) {
  Graph& outermost = *context.model.graph;
  Pat lookup = Op("Gather").attr_or("axis", int64_t{0}, int64_t{0})(any("table"), any("buckets"));
  Pat heads_first = Op("Transpose", "heads first").attr("perm", {2, 0, 1})(lookup);
  Pat bias = Op("Unsqueeze", "bias").further_inputs()(heads_first);
  Pat theirs = Op("RelativePositionBias", "theirs").domain("com.microsoft")(any("table"), any("queries"), any("keys"));
  const std::vector<pattern::Rule> list = {
      {"fuse_position_bias", bias, [&](const Match& m, Builder& b) { return rewrite(m, b, outermost); }},
      {"fuse_position_bias", heads_first, [&](const Match& m, Builder& b) { return rewrite(m, b, outermost); }},
      {"fuse_position_bias", theirs, rewrite_microsoft}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
