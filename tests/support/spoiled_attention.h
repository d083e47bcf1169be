// An attention as exporters write it, of which single lines are replaced to spoil it.
#pragma once

#include <map>
#include <string>

namespace attune::test {

// A cross-attention of 2 heads of width 4 over states x (B, T, 8) and z (B, S, 8), with a mask added to the scores.
// Each line of the graph has the name of the value that it gives; a replacement may be several lines. Empty: the line
// goes.
class SpoiledAttention {
 public:
  SpoiledAttention& with(const std::string& value, const std::string& line) {
    lines_.at(value) = line;
    return *this;
  }
  SpoiledAttention& inputs(const std::string& more) {
    inputs_ += ", " + more;
    return *this;
  }
  SpoiledAttention& outputs(const std::string& more) {
    outputs_ += ", " + more;
    return *this;
  }
  SpoiledAttention& opset(int version) {
    opset_ = version;
    return *this;
  }

  std::string text() const {
    std::string body;
    for (const std::string& value : kOrder)
      if (!lines_.at(value).empty()) body += "  " + lines_.at(value) + "\n";
    return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset_) + ", \"com.microsoft\" : 1]>\ng (" +
           inputs_ + ") => (" + outputs_ +
           ") <int64[2] sizes = {8, 8}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, 8}, float root = "
           "{2}>\n{\n" +
           body + "}";
  }

 private:
  inline static const std::string kOrder[] = {"wq", "wk", "wv", "q0", "q1", "q", "k0", "k1", "k", "v0",
                                              "v1", "v",  "e",  "s",  "m",  "p", "c",  "t",  "y"};
  int opset_ = 17;
  std::string inputs_ = "float[B,T,8] x, float[B,S,8] z, float[B,1,1,S] mask", outputs_ = "float[B,T,8] y";
  std::map<std::string, std::string> lines_ = {{"wq", "[wq] wq = ConstantOfShape <value = float[1] {0.1}> (sizes)"},
                                               {"wk", "[wk] wk = ConstantOfShape <value = float[1] {0.2}> (sizes)"},
                                               {"wv", "[wv] wv = ConstantOfShape <value = float[1] {0.3}> (sizes)"},
                                               {"q0", "[project_q] q0 = MatMul (x, wq)"},
                                               {"q1", "[split_q] q1 = Reshape (q0, heads)"},
                                               {"q", "[heads_q] q = Transpose <perm = [0, 2, 1, 3]> (q1)"},
                                               {"k0", "[project_k] k0 = MatMul (z, wk)"},
                                               {"k1", "[split_k] k1 = Reshape (k0, heads)"},
                                               {"k", "[heads_k] k = Transpose <perm = [0, 2, 3, 1]> (k1)"},
                                               {"v0", "[project_v] v0 = MatMul (z, wv)"},
                                               {"v1", "[split_v] v1 = Reshape (v0, heads)"},
                                               {"v", "[heads_v] v = Transpose <perm = [0, 2, 1, 3]> (v1)"},
                                               {"e", "[scores] e = MatMul (q, k)"},
                                               {"s", "[scale] s = Div (e, root)"},
                                               {"m", "[masked] m = Add (s, mask)"},
                                               {"p", "[softmax] p = Softmax <axis = -1> (m)"},
                                               {"c", "[context] c = MatMul (p, v)"},
                                               {"t", "[back] t = Transpose <perm = [0, 2, 1, 3]> (c)"},
                                               {"y", "[merge] y = Reshape (t, merged)"}};
};

}  // namespace attune::test
