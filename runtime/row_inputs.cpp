#include "runtime/row_inputs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

// True if row i of the node's output depends on row i of input `input` alone: matrices stay rows of matrices.
bool is_row_wise(const Node& n, size_t input) {
  const auto constant = [&](size_t i) { return !n.input(i) || n.input(i)->constant(); };
  const auto vector = [&](size_t i) { return constant(i) && (!n.input(i) || n.input(i)->constant()->rank() <= 1); };
  if (n.is("Cast") || n.is("Identity")) return true;
  if (n.is("Add") || n.is("Mul")) return vector(1 - input);
  if (input != 0) return false;
  if (n.is("Linear", "ai.attune")) return constant(1) && !n.input(3);
  if (n.is("MatMul")) return n.input(1)->constant() && n.input(1)->constant()->rank() == 2;
  if (n.is("LayerNormalization")) return n.attr_int("axis", -1) == -1 && n.output_count() == 1;
  if (n.is("Transpose")) {
    const auto axes = n.attr_ints("perm");
    return axes.size() > 1 && axes[0] == 0;
  }
  if (n.is("Reshape") && n.attr_int("allowzero", 0) == 0 && n.input(1) && n.input(1)->constant()) {
    const auto shape = n.input(1)->constant()->to_int64();
    return shape.size() > 1 && shape[0] == 0;
  }
  return false;
}

// True if a Shape is read for other sizes than the first.
bool spares_batch(const Node& shape) {
  if (shape.attr_int("start", 0) > 0) return true;
  if (shape.output()->is_graph_output()) return false;
  const auto spares = [](const Use& u) {
    const Value* index = u.index == 0 && u.node->is("Gather") ? u.node->input(1) : nullptr;
    if (!index || !index->constant()) return false;
    const auto at = index->constant()->to_int64();
    const int rank = u.node->input(0)->producer()->input(0)->tensor_type().rank();
    return std::all_of(at.begin(), at.end(), [&](int64_t i) { return i > 0 || (i < 0 && rank > 0 && i != -rank); });
  };
  const auto& uses = shape.output()->uses();
  return std::all_of(uses.begin(), uses.end(), spares);
}

struct Read {
  Node* node;  // an attention
  size_t input;
  Value* root;  // the decoder's input that it reads
};

class Analysis {
 public:
  Analysis(Graph& decoder, const std::vector<bool>& candidates) : decoder_(decoder) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      Value* root = decoder.inputs()[i];
      if (candidates[i]) uses_[root] = use_of(*root);
    }
    keep_same_lengths();
    while (drop_halves()) {
    }
  }

  RowUse use(const Value* root) const {
    const auto it = uses_.find(root);
    return it == uses_.end() ? RowUse::kInOrder : it->second;
  }

  const std::vector<Read>& reads() const { return reads_; }

 private:
  RowUse use_of(Value& root) {
    std::optional<RowUse> use;
    std::vector<Read> reads;
    if (!follow(root, root, use, reads) || !use) return RowUse::kInOrder;
    reads_.insert(reads_.end(), reads.begin(), reads.end());
    return *use;
  }

  // False if something reads `v`, which is `root` row by row, in another way than `use`, which is set by the first.
  bool follow(Value& root, Value& v, std::optional<RowUse>& use, std::vector<Read>& reads) {
    if (!passes(root, v)) return false;
    for (const Use& u : v.uses()) {
      Node& n = *u.node;
      if (n.is("Shape")) {
        if (!spares_batch(n)) return false;
        continue;
      }
      if (is_attention(n)) {
        const bool past = u.index == kAttentionPastKey || u.index == kAttentionPastValue;
        const bool memory = u.index == kAttentionKey || u.index == kAttentionValue;
        const RowUse found = past ? RowUse::kPast : RowUse::kSource;
        if ((!past && !memory) || use.value_or(found) != found || (past && &v != &root)) return false;
        if (memory &&
            (n.input(kAttentionPastKey) || n.output(kAttentionPresentKey) || n.output(kAttentionPresentValue)))
          return false;
        use = found;
        reads.push_back({&n, u.index, &root});
        continue;
      }
      // What loops and branches take in is a use of a node within them.
      if (!is_row_wise(n, u.index) || n.output_count() != 1 || n.output()->is_graph_output()) return false;
      if (!follow(root, *n.output(), use, reads)) return false;
    }
    return true;
  }

  // A branch may give an input back as it came, for the next step.
  bool passes(const Value& root, const Value& v) const {
    if (&v != &root) return true;
    bool as_it_is = true;
    decoder_.for_each_node([&](const Node& n) {
      const auto bodies = n.subgraphs();
      for (const Graph* body : bodies)
        for (size_t k = 0; k < body->outputs().size(); ++k) {
          if (body->outputs()[k] != &root) continue;
          const Value* given = n.is("If") ? n.output(k) : nullptr;
          as_it_is = as_it_is && given && given->uses().empty() && given->graph() == &decoder_;
        }
    });
    return as_it_is;
  }

  // All caches share an index, so they must be equally long.
  void keep_same_lengths() {
    const Value* first = nullptr;
    bool same = true;
    const auto length = [](const Value* v) { return v->tensor_type().rank() == 4 ? v->tensor_type().dim(2) : Dim(); };
    for (const auto& [root, use] : uses_) {
      if (use != RowUse::kPast) continue;
      if (!first) first = root;
      same = same && length(root).known() && length(root) == length(first);
    }
    for (auto& [root, use] : uses_)
      if (use == RowUse::kPast && !same) use = RowUse::kInOrder;
  }

  // An attention reads keys and values in the same way, or neither by an index. True if an input was dropped.
  bool drop_halves() {
    std::map<Node*, std::set<size_t>> read;
    for (const Read& r : reads_)
      if (uses_[r.root] != RowUse::kInOrder) read[r.node].insert(r.input);
    bool dropped = false;
    for (const Read& r : reads_) {
      RowUse& use = uses_[r.root];
      if (use == RowUse::kInOrder) continue;
      const auto& inputs = read[r.node];
      const bool past = use == RowUse::kPast;
      const size_t key = past ? size_t{kAttentionPastKey} : size_t{kAttentionKey};
      const size_t value = past ? size_t{kAttentionPastValue} : size_t{kAttentionValue};
      const bool both = inputs.contains(key) && (inputs.contains(value) || !r.node->input(value));
      const bool alone = past || !r.node->input(kAttentionPastKey);
      if (both && alone) continue;
      use = RowUse::kInOrder;
      dropped = true;
    }
    return dropped;
  }

  Graph& decoder_;
  std::map<const Value*, RowUse> uses_;
  std::vector<Read> reads_;
};

// The input's batch is another than that of the step.
void rename_batch(Value& input, const char* symbol) {
  ValueType type = input.type();
  if (!type.tensor.shape || type.tensor.shape->empty()) return;
  type.tensor.shape->front() = Dim::symbol(symbol);
  input.set_type(std::move(type));
}

Value* add_index(Graph& decoder, const char* name) {
  Value* v = decoder.add_input(name, ValueType::of(DataType::kInt32, Dims{Dim(), Dim()}));
  decoder.set_default(v, Tensor::allocate(DataType::kInt32, {0, 0}));
  return v;
}

}  // namespace

RowInputs add_row_inputs(Graph& decoder, const std::vector<bool>& candidates) {
  const Analysis analysis(decoder, candidates);
  RowInputs added;
  for (Value* input : decoder.inputs()) added.uses.push_back(analysis.use(input));
  const std::vector<Value*> inputs(decoder.inputs().begin(), decoder.inputs().end());
  Value *source_rows = nullptr, *past_rows = nullptr;
  for (const Read& r : analysis.reads()) {
    const RowUse use = analysis.use(r.root);
    if (use == RowUse::kSource) {
      if (!source_rows) source_rows = add_index(decoder, "attune.source_rows");
      r.node->set_input(kAttentionMemoryRows, source_rows);
      rename_batch(*r.root, "attune.sources");
    } else if (use == RowUse::kPast) {
      if (!past_rows) past_rows = add_index(decoder, "attune.past_rows");
      r.node->set_input(kAttentionPastRows, past_rows);
      rename_batch(*r.root, "attune.cache_rows");
    }
  }
  if (source_rows) added.source_rows = source_rows->name();
  if (past_rows) added.past_rows = past_rows->name();
  return added;
}

}  // namespace attune
