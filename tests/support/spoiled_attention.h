// An attention as exporters write it, of which single lines are replaced to spoil it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace attune::test {

// A graph of which each line has the name of the value that it gives; a replacement may be several lines. Empty: the
// line goes.
class SpoiledAttention {
 public:
  // A cross-attention of 2 heads of width 4 over states x (B, T, 8) and z (B, S, 8), with a mask added to the scores.
  SpoiledAttention() = default;
  // An additive attention of a state x (B, 8) over states z (B, S, 8), of which those in `seen` (B, S) count.
  static SpoiledAttention additive();

  SpoiledAttention& with(const std::string& value, const std::string& line) {
    for (Line& l : lines_)
      if (l.value == value) {
        l.text = line;
        return *this;
      }
    throw std::out_of_range("no line gives " + value);
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
    for (const Line& l : lines_)
      if (!l.text.empty()) body += "  " + l.text + "\n";
    return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset_) + ", \"com.microsoft\" : 1]>\ng (" +
           inputs_ + ") => (" + outputs_ + ") <" + constants_ + ">\n{\n" + body + "}";
  }

 private:
  struct Line {
    std::string value, text;
  };

  int opset_ = 17;
  std::string inputs_ = "float[B,T,8] x, float[B,S,8] z, float[B,1,1,S] mask", outputs_ = "float[B,T,8] y";
  std::string constants_ =
      "int64[2] sizes = {8, 8}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, 8}, float root = {2}";
  std::vector<Line> lines_ = {{"wq", "[wq] wq = ConstantOfShape <value = float[1] {0.1}> (sizes)"},
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

inline SpoiledAttention SpoiledAttention::additive() {
  SpoiledAttention a;
  a.inputs_ = "float[B,8] x, float[B,S,8] z, bool[B,S] seen";
  a.outputs_ = "float[B,8] y";
  a.constants_ =
      "int64[2] sizes = {8, 8}, int64[2] column = {8, 1}, int64[1] one = {1}, int64[1] two = {2}, float low = {-1e9}";
  a.lines_ = {{"wq", "[wq] wq = ConstantOfShape <value = float[1] {0.1}> (sizes)"},
              {"wk", "[wk] wk = ConstantOfShape <value = float[1] {0.2}> (sizes)"},
              {"w", "[w] w = ConstantOfShape <value = float[1] {0.3}> (column)"},
              {"q0", "[project_q] q0 = MatMul (x, wq)"},
              {"q", "[row] q = Unsqueeze (q0, one)"},
              {"k", "[project_k] k = MatMul (z, wk)"},
              {"e", "[sum] e = Add (q, k)"},
              {"h", "[tanh] h = Tanh (e)"},
              {"s0", "[scores] s0 = MatMul (h, w)"},
              {"s", "[squeeze] s = Squeeze (s0, two)"},
              {"m", "[masked] m = Where (seen, s, low)"},
              {"p", "[softmax] p = Softmax <axis = -1> (m)"},
              {"r", "[weights] r = Unsqueeze (p, one)"},
              {"c", "[context] c = MatMul (r, z)"},
              {"y", "[merge] y = Squeeze (c, one)"}};
  return a;
}

}  // namespace attune::test
