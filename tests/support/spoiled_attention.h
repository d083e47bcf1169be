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
  // Luong's general attention of a state x (B, 1, 8), of which those in `seen` (B, S) count.
  static SpoiledAttention general();
  // 4 query heads of width 2 over 2 key heads, each repeated.
  static SpoiledAttention grouped();
  // Self-attention whose queries, keys and values are one projection, split.
  static SpoiledAttention packed();
  // Projections of 8-bit integers.
  static SpoiledAttention quantized();

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

  std::string text() const { return graph(inputs_, outputs_, constants_, body()); }
  // The same in the body of a Loop, whose state is the context (B, T, 8).
  std::string text_in_loop() const {
    return graph(inputs_ + ", int64 trips, float[B,T,8] first", "float[B,T,8] out", constants_ + ", bool go = {1}",
                 "  out = Loop (trips, go, first) <body = b (int64 i, bool c0, float[B,T,8] y0) => (bool c1, " +
                     outputs_ + ") {\n  c1 = Identity (c0)\n" + body() + "}>\n");
  }
  // The same in a branch of an If.
  std::string text_in_branch() const {
    return graph(inputs_ + ", bool choice", "float[B,T,8] out", constants_,
                 "  out = If (choice) <then_branch = b () => (" + outputs_ + ") {\n" + body() +
                     "}, else_branch = e () => (float[B,T,8] other) { other = Neg (x) }>\n");
  }

 private:
  std::string body() const {
    std::string body;
    for (const Line& l : lines_)
      if (!l.text.empty()) body += "  " + l.text + "\n";
    return body;
  }
  std::string graph(const std::string& inputs, const std::string& outputs, const std::string& constants,
                    const std::string& body) const {
    return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset_) + ", \"com.microsoft\" : 1]>\ng (" +
           inputs + ") => (" + outputs + ") <" + constants + ">\n{\n" + body + "}";
  }
  // In front of the line that gives `value`.
  SpoiledAttention& before(const std::string& value, const std::string& line) {
    for (Line& l : lines_)
      if (l.value == value) l.text = line + "\n  " + l.text;
    return *this;
  }

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

inline SpoiledAttention SpoiledAttention::general() {
  SpoiledAttention a;
  a.inputs_ = "float[B,1,8] x, float[B,S,8] z, bool[B,S] seen";
  a.outputs_ = "float[B,8] y";
  a.constants_ = "int64[2] sizes = {8, 8}, int64[1] one = {1}, float low = {-1e9}";
  a.lines_ = {{"w", "[w] w = ConstantOfShape <value = float[1] {0.1}> (sizes)"},
              {"k", "[project_k] k = MatMul (z, w)"},
              {"kt", "[turn_k] kt = Transpose <perm = [0, 2, 1]> (k)"},
              {"e", "[scores] e = MatMul (x, kt)"},
              {"s", "[squeeze] s = Squeeze (e, one)"},
              {"m", "[masked] m = Where (seen, s, low)"},
              {"p", "[softmax] p = Softmax <axis = -1> (m)"},
              {"r", "[weights] r = Unsqueeze (p, one)"},
              {"c", "[context] c = MatMul (r, z)"},
              {"y", "[merge] y = Squeeze (c, one)"}};
  return a;
}

inline SpoiledAttention SpoiledAttention::grouped() {
  SpoiledAttention a;
  a.constants_ =
      "int64[2] sizes = {8, 8}, int64[2] narrow = {8, 4}, int64[4] heads = {0, 0, 4, 2}, int64[4] groups = {0, 0, 2, "
      "2}, "
      "int64[1] two = {2}, int64[5] copies = {1, 1, 2, 1, 1}, int64[4] all = {0, 4, -1, 2}, int64[3] merged = {0, 0, "
      "8}, "
      "float root = {2}";
  a.with("wk", "[wk] wk = ConstantOfShape <value = float[1] {0.2}> (narrow)")
      .with("wv", "[wv] wv = ConstantOfShape <value = float[1] {0.3}> (narrow)")
      .with("k1", "[split_k] k1 = Reshape (k0, groups)")
      .with("k",
            "[heads_k] k2 = Transpose <perm = [0, 2, 1, 3]> (k1)\n  [axis_k] k3 = Unsqueeze (k2, two)\n  "
            "[repeat_k] k4 = Expand (k3, copies)\n  [join_k] k5 = Reshape (k4, all)\n  "
            "[turn_k] k = Transpose <perm = [0, 1, 3, 2]> (k5)")
      .with("v1", "[split_v] v1 = Reshape (v0, groups)")
      .with("v",
            "[heads_v] v2 = Transpose <perm = [0, 2, 1, 3]> (v1)\n  [axis_v] v3 = Unsqueeze (v2, two)\n  "
            "[repeat_v] v4 = Expand (v3, copies)\n  [join_v] v = Reshape (v4, all)");
  return a;
}

inline SpoiledAttention SpoiledAttention::packed() {
  SpoiledAttention a;
  a.inputs_ = "float[B,T,8] x, float[B,1,1,T] mask";
  a.constants_ =
      "int64[2] sizes = {8, 24}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, 8}, float root = {2}";
  a.with("wk", "").with("wv", "").with("k0", "").with("v0", "").with(
      "q0", "[project] a = MatMul (x, wq)\n  [parts] q0, k0, v0 = Split <axis = 2> (a)");
  return a;
}

inline SpoiledAttention SpoiledAttention::quantized() {
  SpoiledAttention a;
  a.constants_ += ", float weight_scale = {0.01}";
  for (const std::string name : {"q", "k", "v"}) {
    const std::string states = name == "q" ? "x" : "z", weight = "w" + name;
    a.with(weight, "[" + weight + "] " + weight + " = ConstantOfShape <value = int8[1] {3}> (sizes)");
    a.with(name + "0", "[integer_" + name + "] " + name + "i = MatMulInteger (" + states + "8, " + weight + ", " +
                           states + "z)\n  " + name + "f = Cast <to = 1> (" + name + "i)\n  " + name + "s = Mul (" +
                           states + "s, weight_scale)\n  [project_" + name + "] " + name + "0 = Mul (" + name + "f, " +
                           name + "s)");
  }
  return a.before("wq", "x8, xs, xz = DynamicQuantizeLinear (x)\n  z8, zs, zz = DynamicQuantizeLinear (z)");
}

}  // namespace attune::test
