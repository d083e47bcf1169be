// Matrix products, Einsum, convolutions and transforms.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

// numpy.matmul: a vector is a row on the left, a column on the right; leading dimensions broadcast.
std::optional<Dims> matmul_shape(NodeInference& n, std::optional<Dims> a, std::optional<Dims> b) {
  if (!a || !b) return std::nullopt;
  if (a->empty() || b->empty()) n.fail("a product of scalars");
  const bool row = a->size() == 1, column = b->size() == 1;
  if (row) a->insert(a->begin(), 1);
  if (column) b->push_back(1);
  n.unify(a->back(), (*b)[b->size() - 2], "inner sizes");
  Dims out = n.broadcast(Dims(a->begin(), a->end() - 2), Dims(b->begin(), b->end() - 2));
  if (!row) out.push_back((*a)[a->size() - 2]);
  if (!column) out.push_back(b->back());
  return out;
}

void infer_matmul(NodeInference& n) { n.set(0, n.element(0), matmul_shape(n, n.shape(0), n.shape(1))); }

void infer_matmul_integer(NodeInference& n) { n.set(0, DataType::kInt32, matmul_shape(n, n.shape(0), n.shape(1))); }

void infer_qlinear_matmul(NodeInference& n) { n.set(0, n.element(7), matmul_shape(n, n.shape(0), n.shape(3))); }

std::optional<Dims> transposed(std::optional<Dims> shape, bool transpose) {
  if (transpose && shape && shape->size() >= 2) std::swap(shape->back(), (*shape)[shape->size() - 2]);
  return shape;
}

void infer_gemm(NodeInference& n) {
  n.expect_rank(0, 2);
  n.expect_rank(1, 2);
  const bool a = n.node().attr_int("transA", 0) != 0, b = n.node().attr_int("transB", 0) != 0;
  n.unify(n.dim(0, a ? 0 : 1), n.dim(1, b ? 1 : 0), "inner sizes");
  const Dims out{n.dim(0, a ? 1 : 0), n.dim(1, b ? 0 : 1)};
  n.relate_shape(2, out, false);
  n.relate_shape(2, {out[1]}, false);
  n.set(0, n.element(0), out);
}

void infer_fused_matmul(NodeInference& n) {
  const auto operand = [&](size_t input, const char* transpose, const char* transpose_batch) {
    auto shape = n.shape(input);
    // (d0, batch..., m, k) becomes (batch..., d0, m, k): the first axis is the rows, before any transposition.
    if (n.node().attr_int(transpose_batch, 0) != 0 && shape && shape->size() > 2)
      std::rotate(shape->begin(), shape->begin() + 1, shape->end() - 1);
    return transposed(std::move(shape), n.node().attr_int(transpose, 0) != 0);
  };
  n.set(0, n.element(0), matmul_shape(n, operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB")));
}

// ai.attune: x (..., in), w (in, out), or (out, in) if transposed; bias (out); residual as the output.
void infer_linear(NodeInference& n) {
  n.expect_rank(1, 2);
  const bool transposed = n.node().attr_int("transposed", 0) != 0;
  auto shape = n.shape(0);
  if (shape) {
    if (shape->empty()) n.fail("input 0 is a scalar");
    n.unify(shape->back(), n.dim(1, transposed ? 1 : 0), "inner sizes");
    shape->back() = n.dim(1, transposed ? 0 : 1);
    n.relate_shape(2, {shape->back()});
  }
  n.set(0, n.element(0), std::move(shape));
}

// com.microsoft: x (..., K), packed weights of N columns.
void infer_matmul_nbits(NodeInference& n) {
  auto shape = n.shape(0);
  if (shape) {
    if (shape->empty()) n.fail("input 0 is a scalar");
    n.unify(shape->back(), n.node().attr_int("K", 0), "inner sizes");
    shape->back() = n.node().attr_int("N", 0);
  }
  n.set(0, n.element(0), std::move(shape));
}

// com.microsoft: a and b with scale and zero point each, c, scale and zero point of the result.
void infer_qgemm(NodeInference& n) {
  const bool a = n.node().attr_int("transA", 0) != 0, b = n.node().attr_int("transB", 0) != 0;
  n.set(0, n.node().input(7) ? n.element(0) : DataType::kFloat, Dims{n.dim(0, a ? 1 : 0), n.dim(3, b ? 0 : 1)});
}

// ---- Einsum

struct EinsumTerm {
  std::string letters;             // without the ellipsis
  std::optional<size_t> ellipsis;  // letters before it
};

EinsumTerm parse_term(const NodeInference& n, std::string_view text) {
  EinsumTerm out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "...") {
      if (out.ellipsis) n.fail("two ellipses in one term of the equation");
      out.ellipsis = out.letters.size();
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      out.letters += text[i];
    } else {
      n.fail(fmt::format("character '{}' in the equation", text[i]));
    }
  }
  return out;
}

// Without an output term: the ellipsis, then letters that occur once, sorted.
EinsumTerm implicit_output(const std::vector<EinsumTerm>& terms) {
  std::map<char, int> count;
  EinsumTerm out;
  for (const EinsumTerm& t : terms) {
    if (t.ellipsis) out.ellipsis = 0;
    for (const char c : t.letters) ++count[c];
  }
  for (const auto& [letter, times] : count)
    if (times == 1) out.letters += letter;
  return out;
}

void infer_einsum(NodeInference& n) {
  std::string equation = n.node().attr_string("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::vector<EinsumTerm> terms;
  std::string_view left = std::string_view(equation).substr(0, arrow);
  for (;;) {
    const size_t comma = left.find(',');
    terms.push_back(parse_term(n, left.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (terms.size() != n.input_count()) n.fail(fmt::format("{} terms for {} inputs", terms.size(), n.input_count()));
  const EinsumTerm output =
      arrow == std::string::npos ? implicit_output(terms) : parse_term(n, std::string_view(equation).substr(arrow + 2));
  std::map<char, Dim> sizes;
  std::optional<Dims> batch = Dims{};
  for (size_t k = 0; k < terms.size(); ++k) {
    const EinsumTerm& term = terms[k];
    const auto& shape = n.shape(k);
    if (!shape) {
      if (term.ellipsis) batch.reset();
      continue;
    }
    const size_t letters = term.letters.size();
    if (shape->size() < letters || (!term.ellipsis && shape->size() != letters))
      n.fail(fmt::format("input {} of rank {} for a term of {} letters", k, shape->size(), letters));
    const size_t before = term.ellipsis.value_or(letters), hidden = shape->size() - letters;
    for (size_t i = 0; i < letters; ++i) {
      const Dim d = (*shape)[i < before ? i : i + hidden];
      const auto [it, added] = sizes.try_emplace(term.letters[i], d);
      if (!added)
        it->second = it->second.is(1) ? d : d.is(1) ? it->second : n.unify(it->second, d, "sizes of one letter");
    }
    const auto begin = shape->begin() + static_cast<std::ptrdiff_t>(before);
    if (term.ellipsis && batch) batch = n.broadcast(*batch, Dims(begin, begin + static_cast<std::ptrdiff_t>(hidden)));
  }
  if (output.ellipsis && !batch) return n.set(0, n.element(0));
  Dims out;
  for (size_t i = 0; i <= output.letters.size(); ++i) {
    if (output.ellipsis == i) out.insert(out.end(), batch->begin(), batch->end());
    if (i < output.letters.size()) out.push_back(sizes[output.letters[i]]);
  }
  n.set(0, n.element(0), std::move(out));
}

// ---- Convolution and pooling

struct Window {
  std::vector<int64_t> strides, dilations, pads;
  std::string auto_pad;
  bool ceil_mode = false;
};

Window window_of(const NodeInference& n, size_t axes) {
  const Node& node = n.node();
  Window w{node.attr_ints("strides", std::vector<int64_t>(axes, 1)),
           node.attr_ints("dilations", std::vector<int64_t>(axes, 1)),
           node.attr_ints("pads", std::vector<int64_t>(2 * axes, 0)), node.attr_string("auto_pad", "NOTSET"),
           node.attr_int("ceil_mode", 0) != 0};
  if (w.strides.size() != axes || w.dilations.size() != axes || w.pads.size() != 2 * axes)
    n.fail(fmt::format("strides, dilations or pads don't fit {} axes", axes));
  for (const int64_t s : w.strides)
    if (s < 1) n.fail(fmt::format("a stride of {}", s));
  return w;
}

Dim window_count(const Window& w, size_t axis, size_t axes, const Dim& size, const Dim& kernel) {
  const int64_t stride = w.strides[axis];
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") return Dim::ceil_divide(size, stride);
  const Dim begin = w.pads[axis];
  const Dim padding = w.auto_pad == "VALID" ? Dim(0) : begin + w.pads[axes + axis];
  const Dim reach = (kernel - 1) * Dim(w.dilations[axis]) + 1;
  const Dim room = size + padding - reach;
  if (!w.ceil_mode) return Dim::floor_divide(room, stride) + 1;
  // A window that would start in the padding at the end is dropped.
  const Dim count = Dim::ceil_divide(room, stride) + 1;
  const Dim beyond = (count - 1) * stride - size - begin;  // where the last one starts, from the padding's beginning
  if (!beyond.constant()) return {};
  return beyond.at_least(0) ? count - 1 : count;
}

void infer_conv(NodeInference& n, DataType type, size_t weight) {
  const auto x = n.shape(0), w = n.shape(weight);
  if (!x) return n.set(0, type);
  if (x->size() < 3 || (w && w->size() != x->size())) n.fail("input and kernel don't have the same rank of at least 3");
  const size_t axes = x->size() - 2;
  const Window window = window_of(n, axes);
  const auto kernel = n.node().attr_ints("kernel_shape");
  if (!kernel.empty() && kernel.size() != axes) n.fail("kernel_shape doesn't fit the input");
  Dims out{(*x)[0], w ? (*w)[0] : Dim()};
  for (size_t i = 0; i < axes; ++i) {
    const Dim size = w ? (*w)[i + 2] : kernel.empty() ? Dim() : Dim(kernel[i]);
    out.push_back(window_count(window, i, axes, (*x)[i + 2], size));
  }
  if (w) n.unify((*x)[1], (*w)[1] * Dim(n.node().attr_int("group", 1)), "channels");
  n.set(0, type, std::move(out));
}

void infer_pool(NodeInference& n) {
  const auto x = n.shape(0);
  const auto kernel = n.node().attr_ints("kernel_shape");
  if (!x) {
    n.set(0, n.element(0));
    return n.set(1, DataType::kInt64);
  }
  if (x->size() != kernel.size() + 2) n.fail("kernel_shape doesn't fit the input");
  const Window window = window_of(n, kernel.size());
  Dims out{(*x)[0], (*x)[1]};
  for (size_t i = 0; i < kernel.size(); ++i)
    out.push_back(window_count(window, i, kernel.size(), (*x)[i + 2], kernel[i]));
  n.set(0, n.element(0), out);
  n.set(1, DataType::kInt64, std::move(out));
}

void infer_global_pool(NodeInference& n) {
  auto shape = n.shape(0);
  if (shape)
    for (size_t i = 2; i < shape->size(); ++i) (*shape)[i] = 1;
  n.set(0, n.element(0), std::move(shape));
}

// Frames that lie within the signal; ONNX's own rule counts those that begin in it.
void infer_stft(NodeInference& n) {
  n.expect_rank(0, 3);
  const auto step = n.constant_integer(1), given = n.constant_integer(3);
  const Dim length = n.has(3) ? (given ? Dim(*given) : Dim()) : n.has(2) ? n.dim(2, 0) : n.dim(0, 1);
  if (n.has(3) && given && *given < 1) n.fail(fmt::format("frames of {}", *given));
  if (step && *step < 1) n.fail(fmt::format("a step of {}", *step));
  const Dim frames = step ? Dim::floor_divide(n.dim(0, 1) - length, *step) + 1 : Dim();
  const Dim half = Dim::floor_divide(length, 2) + 1;
  const bool whole = n.node().attr_int("onesided", 1) == 0 || n.dim(0, 2).is(2);
  n.set(0, n.element(0), Dims{n.dim(0, 0), frames, whole ? length : n.dim(0, 2).is(1) ? half : Dim(), 2});
}

}  // namespace

InferRules linear_algebra_rules() {
  return {
      {"", "MatMul", 2, infer_matmul},
      {"", "MatMulInteger", 2, infer_matmul_integer},
      {"", "QLinearMatMul", 8, infer_qlinear_matmul},
      {"", "Gemm", 2, infer_gemm},
      {"", "Einsum", 1, infer_einsum},
      {"", "Conv", 2, [](NodeInference& n) { infer_conv(n, n.element(0), 1); }},
      {"", "ConvInteger", 2, [](NodeInference& n) { infer_conv(n, DataType::kInt32, 1); }},
      {"", "QLinearConv", 8, [](NodeInference& n) { infer_conv(n, n.element(7), 3); }},
      {"", "STFT", 2, infer_stft},
      {"", "MaxPool", 1, infer_pool},
      {"", "AveragePool", 1, infer_pool},
      {"", "GlobalAveragePool", 1, infer_global_pool},
      {"", "GlobalMaxPool", 1, infer_global_pool},
      {"com.microsoft", "FusedMatMul", 2, infer_fused_matmul},
      {"com.microsoft", "TransposeMatMul", 2, infer_fused_matmul},
      {"com.microsoft", "MatMulIntegerToFloat", 4,
       [](NodeInference& n) { n.set(0, n.element(2), matmul_shape(n, n.shape(0), n.shape(1))); }},
      {"com.microsoft", "DynamicQuantizeMatMul", 3, infer_matmul},
      {"com.microsoft", "MatMulNBits", 2, infer_matmul_nbits},
      {"com.microsoft", "QGemm", 6, infer_qgemm},
      {"ai.attune", "Linear", 2, infer_linear},
  };
}

}  // namespace attune
