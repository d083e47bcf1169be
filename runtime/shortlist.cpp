#include "runtime/shortlist.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/io/file_system.h"
#include "graph/io/npy.h"
#include "ops/kernel.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

std::vector<int64_t> integers(const NamedTensors& arrays, const std::string& name) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) invalid(fmt::format("expected an array '{}'", name));
  if (found->second.rank() != 1 || !is_integer(found->second.type()))
    invalid(fmt::format("'{}': expected integers of rank 1, got {}{}", name, attune::name(found->second.type()),
                        found->second.shape().to_string()));
  return found->second.to_int64();
}

// ---- The matrix that gives the logits

bool is_scalar(const Value* v) { return v && v->constant() && v->constant()->count() == 1; }

// A vector of one number per token: its last axis is the only one that isn't 1.
bool is_vector(const Value* v, int64_t vocabulary) {
  const Tensor* t = v ? v->constant() : nullptr;
  return t && t->rank() >= 1 && t->count() == vocabulary && t->shape().back() == vocabulary;
}

struct Head {
  Node* product = nullptr;
  std::vector<std::pair<Node*, size_t>> vectors;  // inputs to be shortened too
};

// The operand of a sum or product that isn't a constant; null if there is none, or two.
Value* data_of(const Node& n, size_t& constant) {
  for (const size_t i : {size_t{0}, size_t{1}})
    if (n.input(i) && n.input(1 - i) && n.input(1 - i)->constant()) {
      constant = 1 - i;
      return n.input(i);
    }
  return nullptr;
}

bool find_head(Value* v, Head& head) {
  for (int step = 0; step < 8; ++step) {
    Node* n = v->producer();
    if (!n || (step > 0 && (v->uses().size() > 1 || v->is_graph_output()))) return false;
    if (n->is("MatMul") || n->is("Linear", "ai.attune") || n->is("Gemm")) {
      head.product = n;
      return true;
    }
    size_t constant = 0;
    if (n->is("Identity") || n->is("Cast")) {
      v = n->input(0);
    } else if (n->is("Add") || n->is("Mul") || n->is("Div")) {
      Value* data = data_of(*n, constant);
      if (!data) return false;
      if (!is_scalar(n->input(constant))) head.vectors.emplace_back(n, constant);
      v = data;
    } else {
      return false;
    }
  }
  return false;
}

Tensor transposed(const Tensor& t) {
  const Tensor from = t.to_contiguous();
  const auto rows = static_cast<size_t>(t.dim(0)), columns = static_cast<size_t>(t.dim(1));
  Tensor to = Tensor::allocate(t.type(), {t.dim(1), t.dim(0)});
  dispatch<float, Float16, BFloat16, double>(t.type(), [&]<class T>() {
    const T* in = from.data<T>();
    T* out = to.mutable_data<T>();
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  });
  return to;
}

// The matrix of a product. Rows of tokens, (vocabulary, width), are what can be gathered.
struct Matrix {
  Value* constant = nullptr;
  bool constant_as_rows = false;  // (vocabulary, width) as it is; else to be turned
  bool taken_as_rows = false;
  int64_t vocabulary() const { return constant->constant()->dim(constant_as_rows ? 0 : 1); }
};

std::optional<Matrix> matrix_of(const Node& product) {
  Value* b = product.input(1);
  const bool as_rows = product.attr_int(product.is("Gemm") ? "transB" : "transposed", 0) != 0;
  Matrix m{b, as_rows, as_rows};
  if (b && !b->constant() && b->producer() && b->producer()->is("Transpose") && !as_rows)
    m = {b->producer()->input(0), true, false};
  const Tensor* t = m.constant ? m.constant->constant() : nullptr;
  if (!t || t->rank() != 2 || !is_float(t->type())) return std::nullopt;
  return m;
}

// The rows, or the last axis, of `from` at `tokens`.
Value* gather(Graph& graph, Node& before, Value* from, Value* tokens, int64_t axis) {
  Node* n = graph.insert_node(&before, "", "Gather", {from, tokens}, 1, {{"axis", axis}});
  n->output()->set_type(ValueType::of(from->element_type()));
  return n->output();
}

bool plain(const Node& product) {
  if (product.is("Linear", "ai.attune")) return !product.input(3);  // a residual would have to be shortened
  return !product.is("Gemm") || (product.attr_int("transA", 0) == 0 && !product.input(2));
}

}  // namespace

std::optional<Shortlist> Shortlist::load(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "shortlist.npz";
  if (!io(file, [&] { return std::filesystem::exists(file); })) return std::nullopt;
  return within(
      [&] { return file.string(); },
      [&] {
        const NamedTensors arrays = read_npz(file);
        Shortlist s;
        s.always_ = integers(arrays, "always");
        s.offsets_ = integers(arrays, "offsets");
        s.tokens_ = integers(arrays, "tokens");
        if (s.offsets_.empty() || s.offsets_.front() != 0 ||
            s.offsets_.back() != static_cast<int64_t>(s.tokens_.size()) ||
            !std::is_sorted(s.offsets_.begin(), s.offsets_.end()))
          invalid(fmt::format("'offsets': expected numbers that ascend from 0 to the {} 'tokens'", s.tokens_.size()));
        for (const auto* list : {&s.always_, &s.tokens_})
          if (std::any_of(list->begin(), list->end(), [](int64_t t) { return t < 0; })) invalid("a token is negative");
        return std::optional(std::move(s));
      });
}

std::vector<int64_t> Shortlist::allowed(std::span<const int64_t> source) const {
  std::vector<int64_t> out = always_;
  for (const int64_t s : source) {
    if (s < 0 || s + 1 >= static_cast<int64_t>(offsets_.size())) continue;
    const auto at = [&](int64_t i) { return tokens_.begin() + offsets_[static_cast<size_t>(i)]; };
    out.insert(out.end(), at(s), at(s + 1));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<ShortenedLogits> shorten_logits(Graph& decoder, size_t logits) {
  Value* output = decoder.outputs()[logits];
  Head head;
  if (!output->uses().empty() || !find_head(output, head) || !plain(*head.product)) return std::nullopt;
  const auto matrix = matrix_of(*head.product);
  if (!matrix) return std::nullopt;
  const int64_t vocabulary = matrix->vocabulary();
  if (head.product->is("Linear", "ai.attune") && head.product->input(2)) head.vectors.emplace_back(head.product, 2);
  for (const auto& [node, input] : head.vectors)
    if (!is_vector(node->input(input), vocabulary)) return std::nullopt;

  Value* tokens = decoder.add_input("shortlist", ValueType::of(DataType::kInt64, Dims{Dim::symbol("shortlist")}));
  Value* all =
      matrix->constant_as_rows ? matrix->constant : decoder.add_constant(transposed(*matrix->constant->constant()));
  Value* rows = gather(decoder, *head.product, all, tokens, 0);
  if (!matrix->taken_as_rows) {
    Node* turn = decoder.insert_node(head.product, "", "Transpose", {rows}, 1, {{"perm", std::vector<int64_t>{1, 0}}});
    turn->output()->set_type(ValueType::of(rows->element_type()));
    rows = turn->output();
  }
  head.product->set_input(1, rows);
  for (const auto& [node, input] : head.vectors)
    node->set_input(input, gather(decoder, *head.product, node->input(input), tokens, -1));
  ValueType type = output->type();
  if (type.tensor.shape && !type.tensor.shape->empty()) type.tensor.shape->back() = Dim();
  output->set_type(std::move(type));
  decoder.erase_unused();
  return ShortenedLogits{std::string(tokens->name()), static_cast<size_t>(vocabulary)};
}

}  // namespace attune
