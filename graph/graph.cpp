#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }
[[noreturn]] void internal(std::string message) { throw Error(Error::Kind::kInternal, std::move(message)); }

}  // namespace

Graph::~Graph() {
  // Bodies hold uses of values out here, and this graph of values further out: drop them before the values go.
  for (const auto& node : nodes_) node->attributes_.clear();
  for (const auto& node : nodes_)
    for (size_t i = 0; i < node->inputs_.size(); ++i)
      if (const Value* v = node->inputs_[i]; v && v->graph_ != this) node->set_input(i, nullptr);
  nodes_.clear();
}

void Graph::attach(std::shared_ptr<Graph> body, Node* node, std::string attribute) {
  body->parent_node_ = node;
  node->attributes_.insert_or_assign(std::move(attribute), Attribute(std::move(body)));
}

void Graph::attach(std::vector<std::shared_ptr<Graph>> bodies, Node* node, std::string attribute) {
  for (const auto& body : bodies) body->parent_node_ = node;
  node->attributes_.insert_or_assign(std::move(attribute), Attribute(std::move(bodies)));
}

Value* Graph::add_input(std::string name, ValueType type) {
  auto v = std::unique_ptr<Value>(new Value);
  v->name_ = std::move(name);
  v->graph_ = this;
  v->is_input_ = true;
  v->type_ = std::move(type);
  input_list_.push_back(v.get());
  owned_inputs_.push_back(std::move(v));
  return input_list_.back();
}

void Graph::set_default(Value* input, Tensor tensor) { input->initializer_ = std::move(tensor); }

Value* Graph::add_constant(Tensor tensor, std::string name) {
  auto v = std::unique_ptr<Value>(new Value);
  v->name_ = std::move(name);
  v->graph_ = this;
  Dims dims;
  for (const int64_t d : tensor.shape()) dims.emplace_back(d);
  v->type_ = ValueType::of(tensor.type(), std::move(dims));
  v->initializer_ = std::move(tensor);
  constants_.push_back(std::move(v));
  return constants_.back().get();
}

Node* Graph::link(std::list<std::unique_ptr<Node>>::iterator before, std::string domain, std::string type,
                  std::vector<Value*> inputs, size_t outputs, Attributes attributes) {
  auto owned = std::unique_ptr<Node>(new Node);
  Node* node = owned.get();
  node->domain_ = domain == "ai.onnx" ? std::string() : std::move(domain);
  node->type_ = std::move(type);
  node->graph_ = this;
  node->attributes_ = std::move(attributes);
  for (Graph* g : node->subgraphs()) g->parent_node_ = node;
  node->position_ = nodes_.insert(before, std::move(owned));
  node->inputs_.resize(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) node->set_input(i, inputs[i]);
  for (size_t i = 0; i < outputs; ++i) node->add_output();
  return node;
}

Node* Graph::add_node(std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs,
                      Attributes attributes) {
  return link(nodes_.end(), std::move(domain), std::move(type), std::move(inputs), outputs, std::move(attributes));
}

Node* Graph::insert_node(Node* before, std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs,
                         Attributes attributes) {
  return link(before->position_, std::move(domain), std::move(type), std::move(inputs), outputs, std::move(attributes));
}

void Graph::add_output(Value* value) { outputs_.push_back(value); }
void Graph::set_output(size_t i, Value* value) { outputs_.at(i) = value; }
void Graph::remove_output(size_t i) { outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i)); }

void Graph::remove_input(Value* input) {
  if (!input->uses_.empty() || input->is_graph_output()) internal("an input in use was removed");
  std::erase(input_list_, input);
  owned_inputs_.remove_if([&](const auto& v) { return v.get() == input; });
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  const std::vector<Use> uses = from->uses_;
  for (const Use& u : uses) u.node->set_input(u.index, to);
  if (!from->is_graph_output()) return;
  Graph& g = *from->graph_;
  Value* replacement = to;
  if (to->graph_ != &g || to->is_input_ || to->initializer_ || to->is_graph_output())
    replacement = g.add_node("", "Identity", {to})->output();
  std::swap(replacement->name_, from->name_);
  from->name_.clear();
  if (replacement->type_.kind == ValueType::Kind::kUnknown || !replacement->type_.tensor.shape)
    replacement->type_ = from->type_;
  std::replace(g.outputs_.begin(), g.outputs_.end(), from, replacement);
}

void Graph::erase(Node* node) {
  for (const auto& o : node->outputs_)
    if (o && (!o->uses_.empty() || o->is_graph_output())) internal("a node in use was erased: " + node->label());
  for (size_t i = 0; i < node->inputs_.size(); ++i) node->set_input(i, nullptr);
  node->attributes_.clear();  // inner graphs release what they captured
  nodes_.erase(node->position_);
}

void Graph::erase_constant(Value* constant) {
  if (!constant->uses_.empty() || constant->is_graph_output()) internal("a constant in use was erased");
  constants_.remove_if([&](const auto& v) { return v.get() == constant; });
}

size_t Graph::erase_unused() {
  size_t erased = 0;
  const std::unordered_set<const Value*> kept(outputs_.begin(), outputs_.end());
  // nodes() may be in any order: work from a queue of nodes that may have become unused.
  std::vector<Node*> queue;
  for (const auto& n : nodes_) queue.push_back(n.get());
  std::unordered_set<Node*> gone;
  while (!queue.empty()) {
    Node* n = queue.back();
    queue.pop_back();
    if (gone.contains(n)) continue;
    const bool used = std::any_of(n->outputs_.begin(), n->outputs_.end(),
                                  [&](const auto& o) { return o && (!o->uses_.empty() || kept.contains(o.get())); });
    if (used) continue;
    std::vector<Value*> inputs(n->inputs_.begin(), n->inputs_.end());
    for (Graph* g : n->subgraphs())
      for (Value* v : g->captured()) inputs.push_back(v);
    gone.insert(n);
    erase(n);
    ++erased;
    for (Value* v : inputs)
      if (v && v->producer_ && v->graph_ == this) queue.push_back(v->producer_);
  }
  for (const auto& n : nodes_)
    for (Graph* g : n->subgraphs()) erased += g->erase_unused();
  std::erase_if(constants_, [&](const auto& v) { return v->uses_.empty() && !kept.contains(v.get()); });
  // An inner graph may have released the last use of something out here.
  if (erased > 0) erased += erase_unused();
  return erased;
}

std::vector<Node*> Graph::topological_order() const {
  // Depth first over inputs (and what bodies capture), without recursion; stable in the order of nodes().
  enum : char { kNew, kOpen, kDone };
  std::unordered_map<const Node*, char> state;
  state.reserve(nodes_.size());
  std::vector<Node*> order;
  order.reserve(nodes_.size());
  struct Frame {
    Node* node;
    std::vector<Value*> inputs;
    size_t next = 0;
  };
  auto frame = [](Node* n) {
    Frame f{n, {n->inputs_.begin(), n->inputs_.end()}};
    for (Graph* g : n->subgraphs())
      for (Value* v : g->captured()) f.inputs.push_back(v);
    return f;
  };
  std::vector<Frame> stack;
  for (const auto& root : nodes_) {
    if (state[root.get()] != kNew) continue;
    state[root.get()] = kOpen;
    stack.push_back(frame(root.get()));
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.next == f.inputs.size()) {
        state[f.node] = kDone;
        order.push_back(f.node);
        stack.pop_back();
        continue;
      }
      const Value* v = f.inputs[f.next++];
      if (!v || v->graph_ != this || !v->producer_) continue;
      char& s = state[v->producer_];
      if (s == kOpen) {
        const auto begin =
            std::find_if(stack.begin(), stack.end(), [&](const Frame& g) { return g.node == v->producer_; });
        constexpr std::ptrdiff_t kNamed = 8;
        std::string cycle;
        for (auto g = begin; g != stack.end() && g - begin < kNamed; ++g) cycle += g->node->label() + " <- ";
        if (stack.end() - begin > kNamed) cycle += "... <- ";
        invalid("the graph has a cycle: " + cycle + v->producer_->label());
      }
      if (s == kNew) {
        s = kOpen;
        stack.push_back(frame(v->producer_));
      }
    }
  }
  return order;
}

void Graph::sort() {
  for (Node* n : topological_order()) nodes_.splice(nodes_.end(), nodes_, n->position_);
}

std::vector<Value*> Graph::captured() const {
  std::vector<Value*> out;
  std::unordered_set<const Value*> seen;
  std::unordered_set<const Graph*> inside{this};
  const std::function<void(const Graph&)> visit = [&](const Graph& g) {
    for (const auto& n : g.nodes_) {
      for (Value* v : n->inputs_)
        if (v && !inside.contains(v->graph_) && seen.insert(v).second) out.push_back(v);
      for (Graph* body : n->subgraphs()) {
        inside.insert(body);
        visit(*body);
      }
    }
  };
  visit(*this);
  return out;
}

void Graph::for_each_node(const std::function<void(Node&)>& f) const {
  for (const auto& n : nodes_) {
    f(*n);
    for (Graph* g : n->subgraphs()) g->for_each_node(f);
  }
}

std::shared_ptr<Graph> Graph::clone(std::unordered_map<const Value*, Value*>* mapping) const {
  std::unordered_map<const Value*, Value*> local;
  auto& map = mapping ? *mapping : local;
  auto copy = std::make_shared<Graph>();
  copy->name = name;
  copy->doc = doc;
  copy->metadata = metadata;
  const auto copy_notes = [](const Value& from, Value* to) {
    to->doc = from.doc;
    to->metadata = from.metadata;
    to->quantization = from.quantization;
  };
  for (const Value* v : input_list_) {
    Value* c = copy->add_input(v->name_, v->type_);
    copy_notes(*v, c);
    c->initializer_ = v->initializer_;
    map[v] = c;
  }
  for (const auto& v : constants_) {
    Value* c = copy->add_constant(*v->initializer_, v->name_);
    c->type_ = v->type_;
    copy_notes(*v, c);
    map[v.get()] = c;
  }
  const auto resolve = [&](Value* v) {
    const auto it = map.find(v);
    return it == map.end() ? v : it->second;
  };
  // Two rounds, as nodes() need not be sorted: outputs first, then inputs and bodies.
  for (const auto& n : nodes_) {
    Node* c = copy->add_node(n->domain_, n->type_, {}, 0);
    c->name = n->name;
    c->overload = n->overload;
    c->doc = n->doc;
    c->metadata = n->metadata;
    c->device_configurations = n->device_configurations;
    for (size_t i = 0; i < n->outputs_.size(); ++i) {
      Value* o = c->add_output();
      if (const auto& from = n->outputs_[i]) {
        o->name_ = from->name_;
        o->type_ = from->type_;
        copy_notes(*from, o);
        map[from.get()] = o;
      }
    }
    for (size_t i = 0; i < n->outputs_.size(); ++i)
      if (!n->outputs_[i]) c->outputs_[i].reset();
  }
  auto c = copy->nodes_.begin();
  for (const auto& n : nodes_) {
    (*c)->inputs_.resize(n->inputs_.size(), nullptr);
    for (size_t i = 0; i < n->inputs_.size(); ++i)
      if (n->inputs_[i]) (*c)->set_input(i, resolve(n->inputs_[i]));
    for (const auto& [key, attribute] : n->attributes_) {
      if (const auto* g = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        attach((*g)->clone(&map), c->get(), key);
      } else if (const auto* list = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
        std::vector<std::shared_ptr<Graph>> bodies;
        for (const auto& g2 : *list) bodies.push_back(g2->clone(&map));
        attach(std::move(bodies), c->get(), key);
      } else {
        (*c)->attributes_.insert_or_assign(key, attribute);
      }
    }
    ++c;
  }
  for (Value* v : outputs_) copy->outputs_.push_back(resolve(v));
  // A body that captures values of this graph was cloned with the map, so its inputs point to the copies.
  return copy;
}

void Graph::verify() const {
  std::set<std::string_view> names;
  const auto check_name = [&](const Value& v) {
    if (!v.name_.empty() && !names.insert(v.name_).second) invalid(fmt::format("two values are named '{}'", v.name_));
  };
  for (const Value* v : input_list_) check_name(*v);
  for (const auto& v : constants_) check_name(*v);
  for (const auto& n : nodes_)
    for (const auto& o : n->outputs_)
      if (o) check_name(*o);

  std::unordered_set<const Graph*> visible;
  for (const Graph* g = this; g; g = g->parent()) visible.insert(g);
  for (const auto& n : nodes_) {
    if (n->graph_ != this) internal(n->label() + " is listed in a graph that isn't its own");
    for (size_t i = 0; i < n->inputs_.size(); ++i) {
      const Value* v = n->inputs_[i];
      if (!v) continue;
      if (!visible.contains(v->graph_))
        invalid(fmt::format("{}: input {} ('{}') isn't visible there", n->label(), i, v->name_));
      const bool listed = std::any_of(v->uses_.begin(), v->uses_.end(),
                                      [&](const Use& u) { return u.node == n.get() && u.index == i; });
      if (!listed) internal(fmt::format("{}: input {} isn't among the uses of '{}'", n->label(), i, v->name_));
    }
    for (Graph* g : n->subgraphs()) {
      if (g->parent_node_ != n.get()) internal(n->label() + ": a body has another parent");
      within([&] { return n->label(); }, [&] { g->verify(); });
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (!outputs_[i] || outputs_[i]->graph_ != this) invalid(fmt::format("output {} isn't a value of the graph", i));
  topological_order();
}

// ---- Model

int64_t Model::opset(std::string_view domain) const {
  const auto it = opset_imports.find(domain == "ai.onnx" ? std::string() : std::string(domain));
  return it == opset_imports.end() ? 0 : it->second;
}

const Function* Model::find_function(std::string_view domain, std::string_view name, std::string_view overload) const {
  for (const Function& f : functions)
    if (f.domain == domain && f.name == name && f.overload == overload) return &f;
  return nullptr;
}

}  // namespace attune
