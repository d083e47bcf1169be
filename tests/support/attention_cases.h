// Generated configurations of ai.attune::Attention.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/evaluate.h"
#include "ops/support/attention_inputs.h"
#include "tests/support/attention_reference.h"

namespace attune::test {

// One node with its inputs (undefined: left out) and wanted outputs.
struct AttentionCase {
  Attributes attributes;
  std::vector<Tensor> inputs = std::vector<Tensor>(kAttentionInputs);
  std::array<bool, kAttentionOutputs> wanted{true, false, false, false, false};

  template <class T>
  T attribute(const std::string& name, T fallback) const {
    const auto it = attributes.find(name);
    return it == attributes.end() ? fallback : std::get<T>(it->second);
  }
  Tensor& operator[](AttentionInput i) { return inputs[i]; }
  const Tensor& operator[](AttentionInput i) const { return inputs[i]; }

  // The configuration in words, for failures.
  std::string describe() const {
    std::string text;
    for (const auto& [key, value] : attributes) {
      text += fmt::format(" {}=", key);
      if (const auto* s = std::get_if<std::string>(&value)) text += *s;
      if (const auto* i = std::get_if<int64_t>(&value)) text += fmt::format("{}", *i);
      if (const auto* f = std::get_if<float>(&value)) text += fmt::format("{}", *f);
      if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) text += fmt::format("[{}]", fmt::join(*l, ","));
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined())
        text += fmt::format(" {}:{}{}", i, name(inputs[i].type()), inputs[i].shape().to_string());
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) text += fmt::format(" ->{}", i);
    return text;
  }

  // The node in `graph`, its inputs being graph inputs (those of `constants` constants).
  Node* add_to(Graph& graph, const std::vector<bool>& constants = {}) const {
    std::vector<Value*> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        values.push_back(nullptr);
      } else if (i < constants.size() && constants[i]) {
        values.push_back(graph.add_constant(inputs[i], fmt::format("c{}", i)));
      } else {
        Dims dims;
        for (const int64_t d : inputs[i].shape()) dims.emplace_back(d);
        values.push_back(graph.add_input(fmt::format("x{}", i), ValueType::of(inputs[i].type(), dims)));
      }
    }
    while (!values.empty() && !values.back()) values.pop_back();
    size_t outputs = kAttentionOutputs;
    while (outputs > 1 && !wanted[outputs - 1]) --outputs;
    Node* node = graph.add_node("ai.attune", "Attention", values, outputs, attributes);
    for (size_t i = outputs; i-- > 0;)
      if (!wanted[i]) node->remove_output(i);
    return node;
  }

  std::vector<Tensor> run(const std::vector<bool>& constants = {}) const {
    Graph graph;
    const Node* node = add_to(graph, constants);
    std::vector<Datum> data(inputs.begin(), inputs.end());
    data.resize(node->inputs().size());
    std::vector<Tensor> out;
    for (const Datum& d : evaluate(*node, 1, std::move(data))) out.push_back(d.defined() ? d.tensor() : Tensor());
    out.resize(kAttentionOutputs);
    return out;
  }

  ReferenceOutputs reference() const {
    const auto heads_of = [&](AttentionInput i) {
      return inputs[i].defined() && inputs[i].rank() == 4 ? inputs[i].dim(1) : 0;
    };
    ReferenceAttributes a;
    a.num_heads = attribute<int64_t>("num_heads", std::max<int64_t>(1, heads_of(kAttentionQuery)));
    int64_t kv = 0;
    for (const auto i : {kAttentionKey, kAttentionValue, kAttentionPastKey}) kv = kv ? kv : heads_of(i);
    a.num_kv_heads = attribute<int64_t>("num_kv_heads", kv ? kv : a.num_heads);
    a.score = attribute<std::string>("score", "scaled_dot");
    a.alignment = attribute<std::string>("alignment", "soft");
    a.empty_row = attribute<std::string>("empty_row", "zero");
    a.weights_output = attribute<std::string>("weights_output", "normalized");
    if (attributes.contains("scale")) a.scale = attribute<float>("scale", 1);
    a.softcap = attribute<float>("softcap", 0);
    a.causal = attribute<int64_t>("causal", 0) != 0;
    const auto window = attribute<std::vector<int64_t>>("window", {-1, -1});
    a.window_left = window[0], a.window_right = window[1];
    a.chunk = attribute<int64_t>("chunk", 1);
    const auto in = [&](AttentionInput i) { return Array::of(inputs[i]); };
    return AttentionReference(
               a, {in(kAttentionQuery), in(kAttentionKey), in(kAttentionValue), in(kAttentionQueryWeight),
                   in(kAttentionKeyWeight), in(kAttentionValueWeight), in(kAttentionQueryBias), in(kAttentionKeyBias),
                   in(kAttentionValueBias), in(kAttentionMask), in(kAttentionKeyLengths), in(kAttentionPastKey),
                   in(kAttentionPastValue), in(kAttentionScoreWeight), in(kAttentionScoreBias), in(kAttentionPosition),
                   in(kAttentionQueryPosition),
                   inputs[kAttentionMask].defined() && inputs[kAttentionMask].type() == DataType::kBool})
        .run();
  }
};

class CaseGenerator {
 public:
  explicit CaseGenerator(uint32_t seed, DataType type = DataType::kFloat) : random_(seed), type_(type) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }

  Tensor normal(const Shape& shape, double spread = 1, DataType type = DataType::kUndefined) {
    std::normal_distribution<double> distribution(0, spread);
    std::vector<double> values(static_cast<size_t>(shape.count()));
    for (double& v : values) v = distribution(random_);
    return of(shape, values, type == DataType::kUndefined ? type_ : type);
  }

  static Tensor of(const Shape& shape, const std::vector<double>& values, DataType type) {
    Tensor t = Tensor::allocate(type, shape);
    for (size_t i = 0; i < values.size(); ++i) {
      switch (type) {
        case DataType::kFloat:
          t.mutable_data<float>()[i] = static_cast<float>(values[i]);
          break;
        case DataType::kDouble:
          t.mutable_data<double>()[i] = values[i];
          break;
        case DataType::kFloat16:
          t.mutable_data<Float16>()[i] = Float16(static_cast<float>(values[i]));
          break;
        case DataType::kBFloat16:
          t.mutable_data<BFloat16>()[i] = BFloat16(static_cast<float>(values[i]));
          break;
        case DataType::kBool:
          t.mutable_data<bool>()[i] = values[i] != 0;
          break;
        default:
          t.mutable_data<int64_t>()[i] = static_cast<int64_t>(values[i]);
          break;
      }
    }
    return t;
  }

  struct Sizes {
    int64_t b, tq, tp, tn, g, repeat, e, ek, f;
    int64_t heads() const { return g * repeat; }
    int64_t tk() const { return tp + tn; }
  };

  // Any configuration; `large` for sizes beyond one block of a blocked kernel.
  AttentionCase next(bool large = false) {
    AttentionCase c;
    Sizes s{1 + below(3), 1 + below(6), 0, 1 + below(9), 1 + below(3), 1 + below(3), 1 + below(20), 0, 1 + below(40)};
    if (large)
      s.tq = 1 + below(150), s.tn = 1 + below(300), s.b = 1 + below(2), s.e = pick<int64_t>({8, 16, 31, 64}),
      s.f = pick<int64_t>({8, 20, 64});
    if (!large && chance(4)) s.tq = 0;
    if (!large && chance(4)) s.tn = 0;
    if (!large && chance(2)) s.b = 0;
    const std::string score = pick<std::string>({"scaled_dot", "scaled_dot", "dot", "general", "additive"});
    s.ek = score == "general" ? 1 + below(20) : s.e;
    if (score != "scaled_dot" || chance(20)) c.attributes["score"] = score;
    if (score == "scaled_dot" && chance(40)) c.attributes["scale"] = static_cast<float>(below(5)) * 0.3f;
    states(c, s);
    if (score == "additive") c[kAttentionScoreWeight] = normal({s.heads(), s.e});
    if (score == "general") c[kAttentionScoreWeight] = normal({s.heads(), s.e, s.ek}, 0.3);
    if (chance(25)) c[kAttentionScoreBias] = normal({s.heads()});
    visibility(c, s);
    if (chance(25)) c.attributes["softcap"] = 0.5f + static_cast<float>(below(4));
    if (chance(25)) c.attributes["empty_row"] = pick<std::string>({"zero", "mean"});
    alignment(c, s);
    c.wanted[kAttentionWeights] = chance(50);
    if (c.wanted[kAttentionWeights] && chance(80))
      c.attributes["weights_output"] = pick<std::string>({"raw", "capped", "biased", "normalized", "head_mean"});
    c.wanted[kAttentionPresentKey] = chance(50);
    c.wanted[kAttentionPresentValue] = chance(50);
    poisoned_ = chance(20);
    if (poisoned_) poison(c, s);
    return c;
  }

  // True if the last case holds NaN or infinities.
  bool poisoned() const { return poisoned_; }

 private:
  // Query, key, value, projections, past.
  void states(AttentionCase& c, Sizes& s) {
    const bool narrow = type_ == DataType::kFloat16 || type_ == DataType::kBFloat16;
    const bool projects = !narrow || chance(30);
    const bool query_split = chance(40);
    const auto heads = s.heads();
    const bool self = chance(20) && s.ek == s.e;  // key is left out
    if (self) s.tn = s.tq;
    if (chance(35)) s.tp = below(8);
    if (self && query_split) s.g = heads, s.repeat = 1;
    const auto side = [&](AttentionInput input, AttentionInput w, AttentionInput b, bool split, int64_t t, int64_t n,
                          int64_t width) {
      if (split) {
        c[input] = normal({s.b, n, t, width});
        return;
      }
      const bool weight = projects && chance(40);
      const int64_t inner = weight ? 1 + below(24) : n * width;
      c[input] = normal({s.b, t, inner});
      if (weight) c[w] = normal({inner, n * width}, 0.3);
      if (projects && chance(30)) c[b] = normal({n * width}, 0.3);
    };
    side(kAttentionQuery, kAttentionQueryWeight, kAttentionQueryBias, query_split, s.tq, s.heads(), s.e);
    const bool key_split = self ? query_split : chance(40);
    if (!self) {
      side(kAttentionKey, kAttentionKeyWeight, kAttentionKeyBias, key_split, s.tn, s.g, s.ek);
    } else if (!query_split) {
      const int64_t inner = c[kAttentionQuery].dim(2);
      if (inner != s.g * s.ek || chance(50)) c[kAttentionKeyWeight] = normal({inner, s.g * s.ek}, 0.3);
    }
    const Tensor& key_input = self ? c[kAttentionQuery] : c[kAttentionKey];
    if (chance(20)) {  // value is left out
      if (key_split) {
        s.f = key_input.dim(3);
      } else {
        c[kAttentionValueWeight] = normal({key_input.dim(2), s.g * s.f}, 0.3);
      }
    } else {
      side(kAttentionValue, kAttentionValueWeight, kAttentionValueBias, chance(40), s.tn, s.g, s.f);
    }
    if (s.tp > 0 || chance(10)) {
      c[kAttentionPastKey] = normal({s.b, s.g, s.tp, s.ek});
      c[kAttentionPastValue] = normal({s.b, s.g, s.tp, s.f});
    }
    if (!query_split || chance(40)) c.attributes["num_heads"] = s.heads();
    if (s.repeat > 1 || chance(40)) c.attributes["num_kv_heads"] = s.g;
  }

  // Masks, lengths, causality, windows, positions.
  void visibility(AttentionCase& c, const Sizes& s) {
    if (chance(50)) {
      const std::array<int64_t, 4> full{s.b, s.heads(), s.tq, s.tk()};
      const size_t rank = static_cast<size_t>(below(5));
      Shape shape;
      for (size_t i = 4 - rank; i < 4; ++i) shape.push_back(chance(25) ? 1 : full[i]);
      std::vector<double> values(static_cast<size_t>(shape.count()));
      const bool boolean = chance(50);
      for (double& v : values) {
        const auto infinity = std::numeric_limits<double>::infinity();
        const double filler = -64;  // far below any score, and no score is lost in it
        v = boolean      ? static_cast<double>(chance(65))
            : chance(25) ? -infinity
            : chance(15) ? filler
                         : static_cast<double>(below(100)) / 25 - 2;
      }
      c[kAttentionMask] = of(shape, values, boolean ? DataType::kBool : type_);
    }
    const auto integers = [&](int64_t low, int64_t high) {
      std::vector<double> values(static_cast<size_t>(s.b));
      for (double& v : values) v = static_cast<double>(low + below(high - low + 1));
      return of({s.b}, values, DataType::kInt64);
    };
    if (chance(30)) c[kAttentionKeyLengths] = integers(-1, s.tk() + 2);
    if (chance(30)) c.attributes["causal"] = int64_t{1};
    if (chance(30)) c.attributes["window"] = std::vector<int64_t>{below(5) - 1, below(5) - 1};
    if (chance(25)) c[kAttentionQueryPosition] = integers(-2, s.tk() + 1);
  }

  // NaN and infinities in values, and in keys beyond the length: they reach what reads them and nothing else.
  void poison(AttentionCase& c, const Sizes& s) {
    // q'Wk with an infinite k depends on the order of its sums.
    const bool general = c.attribute<std::string>("score", "") == "general";
    const auto set = [&](Tensor& t, int64_t i) {
      const float x = general ? NAN : pick<float>({NAN, INFINITY, -INFINITY});
      if (type_ == DataType::kFloat) t.mutable_data<float>()[i] = x;
      if (type_ == DataType::kDouble) t.mutable_data<double>()[i] = static_cast<double>(x);
      if (type_ == DataType::kFloat16) t.mutable_data<Float16>()[i] = Float16(x);
      if (type_ == DataType::kBFloat16) t.mutable_data<BFloat16>()[i] = BFloat16(x);
    };
    // A far filler's weight is 0 or not by the type it is computed in, and 0 times infinity is NaN.
    const bool biased = c[kAttentionMask].defined() && c[kAttentionMask].type() != DataType::kBool;
    Tensor& value = c[kAttentionValue];
    if (value.defined() && value.count() > 0 && !biased)
      for (int i = 0; i < 3; ++i) set(value, below(value.count()));
    Tensor& key = c[kAttentionKey];
    const Tensor& lengths = c[kAttentionKeyLengths];
    if (!key.defined() || !lengths.defined() || !value.defined() || c.attributes.contains("empty_row")) return;
    for (int64_t b = 0; b < s.b; ++b) {
      const int64_t heads = key.rank() == 4 ? key.dim(1) : 1, width = key.shape().back();
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = std::max<int64_t>(0, lengths.data<int64_t>()[b] - s.tp); t < s.tn; ++t)
          set(key, ((b * heads + h) * s.tn + t) * width + below(width));
    }
  }

  void alignment(AttentionCase& c, const Sizes& s) {
    const bool narrow = type_ == DataType::kFloat16 || type_ == DataType::kBFloat16;
    // Rounded projections may move a choice.
    bool exact = !narrow;
    if (narrow) {
      exact = true;
      for (size_t i = kAttentionQueryWeight; i <= kAttentionValueBias; ++i) exact = exact && !c.inputs[i].defined();
    }
    const std::string alignment = exact ? pick<std::string>({"soft", "soft", "soft", "hard", "monotonic"}) : "soft";
    if (alignment == "soft") return;
    c.attributes["alignment"] = alignment;
    if (c.attributes.contains("softcap")) c.attributes["softcap"] = 12.0f;  // none is so large that scores become equal
    if (alignment == "monotonic") {
      if (chance(50)) c.attributes["chunk"] = 1 + below(4);
      if (chance(50)) {
        std::vector<double> values(static_cast<size_t>(s.b * s.heads()));
        for (double& v : values) v = static_cast<double>(below(s.tk() + 2));
        c[kAttentionPosition] = of({s.b, s.heads()}, values, DataType::kInt64);
      }
      c.wanted[kAttentionNextPosition] = chance(80);
    }
  }

  std::mt19937_64 random_;
  DataType type_;
  bool poisoned_ = false;
};

}  // namespace attune::test
