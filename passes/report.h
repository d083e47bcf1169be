// What a conversion did, and why it left what it left.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attune {

struct Rewrite {
  std::string rule;                  // "fuse_attention"
  std::string node;                  // label of the anchor
  std::string result;                // name of the value that it gives now
  std::vector<std::string> details;  // "scale 0.125", "mask: causal" ...
};

// Why an anchor was left: the rule that came nearest, and where it stopped.
struct NearMiss {
  std::string rule;
  std::string anchor;  // label of the anchor node
  std::string path;    // "MatMul[0].Softmax[0].Add"
  std::string value;   // name of the value there
  std::string reason;  // "expected Mul, found Clip"
};

struct Report {
  std::vector<Rewrite> rewrites;
  std::vector<NearMiss> near_misses;          // one per anchor left in the model
  std::map<std::string, size_t> pass_counts;  // changes by pass
  std::vector<std::string> endless_rules;     // names of rules that were stopped: they match what they give
  std::vector<std::string> notes;             // "input 'x': dimension 0 was 'batch', is 1"
};

}  // namespace attune
