// com.microsoft's AttnLSTM: an LSTM whose input is joined with what it attended to at the step before, by additive
// attention (Bahdanau et al., 2015) of its hidden state to a memory.
#include <fmt/format.h>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

enum Input : size_t {
  kX,  // (T, B, I)
  kWeight,
  kRecurrence,
  kBias,
  kLengths,  // (B), of X
  kHidden,
  kCell,
  kPeephole,
  kQueryWeight,   // (directions, H, E)
  kMemoryWeight,  // (directions, D, E)
  kScore,         // (directions, E)
  kMemory,        // (B, S, D)
  kMemoryLengths,
  kLayer  // (directions, H + D, A)
};

class AttnLstmForm {
 public:
  explicit AttnLstmForm(FormBuilder& b) : b_(b), hidden_(b.positive("hidden_size")), type_(b.type(kX)) {}

  std::vector<Value*> build() {
    b_.refuse_if(!is_float(type_), "the element type isn't known");
    for (const auto& [input, name] :
         {std::pair(kQueryWeight, "QW"), {kMemoryWeight, "MW"}, {kScore, "V"}, {kMemory, "M"}})
      b_.refuse_if(!b_.in(input), fmt::format("{} is left out", name));
    const std::string direction = b_.node().attr_string("direction", "forward");
    b_.refuse_if(direction != "forward" && direction != "reverse" && direction != "bidirectional",
                 "the direction isn't forward, reverse or bidirectional");
    directions_ = direction == "bidirectional" ? 2 : 1;
    batch_ = b_.as_list(b_.dim(b_.in(kX), 1));
    time_ = b_.dim(b_.in(kX), 0);
    if (b_.in(kMemoryLengths)) memory_lengths_ = b_.cast(b_.in(kMemoryLengths), DataType::kInt64);
    Value* all = b_.op("Expand", {time_, batch_});
    lengths_ = b_.in(kLengths) ? b_.cast(b_.in(kLengths), DataType::kInt64) : all;
    std::vector<Value*> states, hidden, cells;
    for (int64_t d = 0; d < directions_; ++d) {
      const std::vector<Value*> outputs = run(d, d == 1 || direction == "reverse");
      states.push_back(b_.unsqueeze(outputs[0], {1}));
      hidden.push_back(b_.unsqueeze(outputs[1], {0}));
      cells.push_back(b_.unsqueeze(outputs[2], {0}));
    }
    return {b_.concat(states, 1), b_.concat(hidden, 0), b_.concat(cells, 0)};
  }

 private:
  // Parameters of direction `d`, that axis kept or taken off; null: left out.
  Value* part(size_t input, int64_t d) {
    return b_.in(input) ? b_.slice(b_.in(input), b_.ints({d}), b_.ints({d + 1}), 0) : nullptr;
  }
  Value* matrix(size_t input, int64_t d) {
    return b_.in(input) ? b_.op("Gather", {b_.in(input), b_.integer(d)}, {{"axis", int64_t{0}}}) : nullptr;
  }
  Value* zeros(Value* width) { return b_.op("Expand", {b_.number(0, type_), b_.concat({batch_, width}, 0)}); }
  Value* reversed(Value* x) {
    return b_.op("ReverseSequence", {x, lengths_}, {{"batch_axis", int64_t{1}}, {"time_axis", int64_t{0}}});
  }

  // Hidden states of all steps (T, B, H), and the last hidden state and cell (B, H).
  std::vector<Value*> run(int64_t d, bool reverse) {
    Value* width = b_.ints({hidden_});
    Value* attended = b_.as_list(b_.in(kLayer) ? b_.dim(b_.in(kLayer), 2) : b_.dim(b_.in(kMemory), 2));
    Value* hidden = b_.in(kHidden) ? matrix(kHidden, d) : zeros(width);
    Value* cell = b_.in(kCell) ? matrix(kCell, d) : zeros(width);
    Value* x = reverse ? reversed(b_.in(kX)) : b_.in(kX);
    Node* scan = b_.BodyBuilder::node("Scan", {b_.integer(0), hidden, cell, zeros(attended), x}, 5,
                                      {{"num_scan_inputs", int64_t{1}}});
    Graph::attach(step(d), scan, "body");
    Value* states = scan->output(4);
    return {reverse ? reversed(states) : states, scan->output(1), scan->output(2)};
  }

  // One step: its number, hidden state, cell, what was attended to, and the input of the step.
  std::shared_ptr<Graph> step(int64_t d) {
    Value *weight = part(kWeight, d), *recurrence = part(kRecurrence, d), *bias = part(kBias, d),
          *peephole = part(kPeephole, d), *layer = matrix(kLayer, d);
    std::vector<Value*> attention(kAttentionInputs);
    attention[kAttentionKey] = b_.in(kMemory);
    attention[kAttentionQueryWeight] = matrix(kQueryWeight, d);
    attention[kAttentionKeyWeight] = matrix(kMemoryWeight, d);
    attention[kAttentionKeyLengths] = memory_lengths_;
    attention[kAttentionScoreWeight] = part(kScore, d);

    auto graph = std::make_shared<Graph>();
    graph->name = "step";
    BodyBuilder b(*graph, b_.opset());
    const ValueType row = ValueType::of(type_, Dims{Dim(), Dim()});
    Value* number = graph->add_input("number", ValueType::of(DataType::kInt64, Dims{}));
    Value* hidden = graph->add_input("hidden", row);
    Value* cell = graph->add_input("cell", row);
    Value* attended = graph->add_input("attended", row);
    Value* x = graph->add_input("x", row);
    Node* lstm = b.node("LSTM",
                        {b.unsqueeze(b.concat({x, attended}, 1), {0}), weight, recurrence, bias, nullptr,
                         b.unsqueeze(hidden, {0}), b.unsqueeze(cell, {0}), peephole},
                        3, lstm_attributes(d));
    Value *new_hidden = b.op("Squeeze", {lstm->output(1), b.ints({0})}),
          *new_cell = b.op("Squeeze", {lstm->output(2), b.ints({0})});
    attention[kAttentionQuery] = b.unsqueeze(new_hidden, {1});
    attention.resize(kAttentionScoreWeight + 1);
    const Node* node = graph->add_node("ai.attune", "Attention", attention, 1, {{"score", std::string("additive")}});
    Value* context = b.op("Squeeze", {node->output(), b.ints({1})});
    if (layer) context = b.matmul(b.concat({new_hidden, context}, 1), layer);
    // Behind its end a sequence keeps what it has.
    Value* lives = b.unsqueeze(b.op("Less", {number, lengths_}), {1});
    const auto output = [&](const char* name, Value* v, const ValueType& type) {
      v->set_name(name);
      v->set_type(type);
      graph->add_output(v);
    };
    output("next", b.add(number, b.integer(1)), ValueType::of(DataType::kInt64, Dims{}));
    output("new_hidden", b.where(lives, new_hidden, hidden), row);
    output("new_cell", b.where(lives, new_cell, cell), row);
    output("new_attended", b.where(lives, context, attended), row);
    output("state", b.where(lives, new_hidden, b.number(0, type_)), row);
    return graph;
  }

  // Those of direction `d`.
  Attributes lstm_attributes(int64_t d) const {
    Attributes attributes{{"hidden_size", hidden_}};
    const Attributes& given = b_.node().attributes();
    for (const char* name : {"clip", "input_forget"})
      if (const auto it = given.find(name); it != given.end()) attributes.insert(*it);
    const auto third = [&]<class T>(const char* name, const T& values) {
      const size_t each = values.size() / static_cast<size_t>(directions_), first = static_cast<size_t>(d) * each;
      attributes[name] = T(values.begin() + static_cast<std::ptrdiff_t>(first),
                           values.begin() + static_cast<std::ptrdiff_t>(first + each));
    };
    if (const auto* names = b_.node().find<std::vector<std::string>>("activations")) third("activations", *names);
    for (const char* name : {"activation_alpha", "activation_beta"})
      if (const auto* values = b_.node().find<std::vector<float>>(name)) third(name, *values);
    return attributes;
  }

  FormBuilder& b_;
  const int64_t hidden_;
  const DataType type_;
  int64_t directions_ = 1;
  Value *batch_ = nullptr, *time_ = nullptr;              // (1); scalar
  Value *lengths_ = nullptr, *memory_lengths_ = nullptr;  // (B); the latter null: all of it
};

}  // namespace

std::vector<Value*> build_attn_lstm_form(FormBuilder& b) { return AttnLstmForm(b).build(); }

}  // namespace attune
