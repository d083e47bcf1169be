// Models of one attention that was spoiled on purpose, after the passes, and what the report has to say of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "convert/verify.h"
#include "graph/io/text.h"
#include "passes/attention_node.h"
#include "passes/pass.h"
#include "tests/support/spoiled_attention.h"

namespace attune::test {

// Elements of a constant in a model's text.
inline std::string numbers(int count) {
  std::string list = "0.5";
  for (int i = 1; i < count; ++i) list += ", " + std::to_string(i % 5);
  return list;
}

struct Converted {
  explicit Converted(const SpoiledAttention& attention) : Converted(attention.text()) {}
  explicit Converted(const std::string& text) : source(parse_model(text)), model(parse_model(text)) {
    optimize(model, report);
    model.graph->verify();
    model.graph->for_each_node([&](const Node& n) {
      if (!is_attention(n)) return;
      attention = &n;
      ++attentions;
    });
  }
  // Computes what the source computes.
  void expect_same() const {
    const Verification v = verify(source, model);
    EXPECT_TRUE(v.passed()) << v.largest_relative;
  }

  Model source, model;
  Report report;
  const Node* attention = nullptr;
  size_t attentions = 0;
};

// What was spoiled, and what the one near miss has to name: the rule, the node, the step of the pattern, the reason.
struct Spoiled {
  std::string name;
  std::string text;  // of the model
  std::string rule, anchor, path, reason;
  bool runs = true;  // on made-up inputs
};

inline std::ostream& operator<<(std::ostream& out, const Spoiled& s) { return out << s.name; }
inline std::string spoiled_name(const testing::TestParamInfo<Spoiled>& info) { return info.param.name; }

inline void expect_explained(const Spoiled& s) {
  const Converted c(s.text);
  std::string all;
  for (const NearMiss& m : c.report.near_misses)
    all += m.rule + ": " + m.anchor + ": " + m.path + ": " + m.value + ": " + m.reason + "\n";
  ASSERT_EQ(c.report.near_misses.size(), 1U) << all;
  SCOPED_TRACE(all);
  const NearMiss& miss = c.report.near_misses[0];
  EXPECT_EQ(miss.rule, s.rule);
  EXPECT_THAT(miss.anchor, testing::HasSubstr(s.anchor));
  EXPECT_THAT(miss.path, testing::HasSubstr(s.path));
  EXPECT_THAT(miss.reason, testing::HasSubstr(s.reason));
  // All or nothing: no part of the attention was rewritten alone.
  if (s.rule == "fuse_attention" || s.rule == "fuse_additive_attention") {
    EXPECT_EQ(c.attentions, 0U);
  }
  if (s.runs) c.expect_same();
}

}  // namespace attune::test
