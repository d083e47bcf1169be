#include "runtime/decoder_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace attune {
namespace {

using Ports = std::vector<Plan::Port>;

std::vector<std::string> words(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      out.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

// What is left of a name without the words that say "before" or "after": equal for both ends of a state.
std::string state_key(const std::string& name) {
  static constexpr std::array kTimeWords{"past", "present", "new",   "next",   "old",     "prev",   "previous",
                                         "in",   "out",     "input", "output", "initial", "updated"};
  auto parts = words(name);
  // "past_key_values.0.key" and "present.0.key": the container has a name of two words.
  if (parts.size() > 3 && (parts[0] == "past" || parts[0] == "present") && parts[1] == "key" && parts[2] == "values")
    parts.erase(parts.begin(), parts.begin() + 3);
  std::erase_if(parts, [](const std::string& w) {
    return std::find(kTimeWords.begin(), kTimeWords.end(), w) != kTimeWords.end();
  });
  return fmt::format("{}", fmt::join(parts, "."));
}

bool has_word(const std::string& name, std::string_view word) {
  const auto parts = words(name);
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& w) { return w.starts_with(word); });
}

DataType element(const Plan::Port& p) { return p.type.tensor.element; }
int rank(const Plan::Port& p) { return p.type.tensor.rank(); }

bool is_index(const Plan::Port& p) { return element(p) == DataType::kInt64 || element(p) == DataType::kInt32; }

// Whether a value of one type could be fed as the other: unknown sizes fit any.
bool compatible(const ValueType& a, const ValueType& b) {
  if (a.tensor.element != b.tensor.element) return false;
  if (!a.tensor.shape || !b.tensor.shape) return true;
  if (a.tensor.rank() != b.tensor.rank()) return false;
  for (int i = 0; i < a.tensor.rank(); ++i) {
    const auto x = a.tensor.dim(i).known() ? a.tensor.dim(i).constant() : std::nullopt;
    const auto y = b.tensor.dim(i).known() ? b.tensor.dim(i).constant() : std::nullopt;
    if (x && y && *x != *y) return false;
  }
  return true;
}

std::optional<size_t> find_name(const Ports& ports, const std::string& name) {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const Plan::Port& p) { return p.name == name; });
  if (it == ports.end()) return std::nullopt;
  return static_cast<size_t>(it - ports.begin());
}

class PortAssigner {
 public:
  PortAssigner(const DecoderGraph& decoder, const DecoderGraph& encoder, std::vector<StateSlot>& states)
      : decoder_(decoder), encoder_(encoder), states_(states) {}

  DecoderPorts run() {
    ports_.inputs.resize(decoder_.inputs.size());
    assigned_.assign(decoder_.inputs.size(), false);
    taken_.assign(decoder_.outputs.size(), false);
    find_logits();
    pair_by_name();
    for (size_t i = 0; i < decoder_.inputs.size(); ++i)
      if (!assigned_[i]) assign_source(i);
    for (size_t i = 0; i < decoder_.inputs.size(); ++i)
      if (!assigned_[i]) assign_index(i);
    pair_by_type();
    adopt_states();
    fail_on_rest();
    collect_outputs();
    return std::move(ports_);
  }

 private:
  void bind(size_t input, PortRole role, size_t index = 0) {
    ports_.inputs[input] = {role, index};
    assigned_[input] = true;
  }

  // The logits are the float output that is called so, else the first one that is no state.
  void find_logits() {
    std::optional<size_t> found = find_name(decoder_.outputs, "logits");
    for (size_t o = 0; o < decoder_.outputs.size() && !found; ++o) {
      const std::string key = state_key(decoder_.outputs[o].name);
      const bool state = std::any_of(decoder_.inputs.begin(), decoder_.inputs.end(),
                                     [&](const Plan::Port& p) { return state_key(p.name) == key; });
      if (is_float(element(decoder_.outputs[o])) && !state) found = o;
    }
    if (!found) throw Error(Error::Kind::kInvalidModel, "the decoder has no output that could be its logits");
    ports_.logits = *found;
    taken_[*found] = true;
  }

  size_t state(const Plan::Port& input) {
    const std::string key = state_key(input.name);
    const auto it = std::find_if(states_.begin(), states_.end(), [&](const StateSlot& s) { return s.key == key; });
    if (it != states_.end()) {
      it->type = input.type;
      return static_cast<size_t>(it - states_.begin());
    }
    StateSlot slot{key, input.type, std::nullopt, false};
    for (size_t e = 0; e < encoder_.outputs.size(); ++e)
      if (state_key(encoder_.outputs[e].name) == key && compatible(encoder_.outputs[e].type, input.type))
        slot.encoder_output = e;
    states_.push_back(std::move(slot));
    return states_.size() - 1;
  }

  void make_state(size_t input, size_t output) {
    const size_t s = state(decoder_.inputs[input]);
    states_[s].updated = true;
    outputs_.emplace_back(s, output);
    taken_[output] = true;
    bind(input, PortRole::kState, s);
  }

  void pair_by_name() {
    for (size_t i = 0; i < decoder_.inputs.size(); ++i)
      for (size_t o = 0; o < decoder_.outputs.size() && !assigned_[i]; ++o)
        if (!taken_[o] && state_key(decoder_.inputs[i].name) == state_key(decoder_.outputs[o].name) &&
            compatible(decoder_.inputs[i].type, decoder_.outputs[o].type))
          make_state(i, o);
  }

  // Inputs that the encoder gives or takes too.
  void assign_source(size_t i) {
    const Plan::Port& port = decoder_.inputs[i];
    const std::string& name = port.name;
    if (element(port) == DataType::kBool && (rank(port) == 0 || (rank(port) == 1 && port.type.tensor.dim(0).is(1))))
      return bind(i, PortRole::kCacheBranch);
    if (const auto o = find_name(encoder_.outputs, name)) return bind(i, PortRole::kMemory, *o);
    // Beside the mask of the source, a mask without a prefix is that of the decoder's own tokens.
    if (has_word(name, "mask") && find_name(decoder_.inputs, "encoder_" + name)) return bind(i, PortRole::kTargetMask);
    for (const std::string& candidate : {name, name.starts_with("encoder_") ? name.substr(8) : "encoder_" + name}) {
      const auto e = find_name(encoder_.inputs, candidate);
      const bool tokens = e && is_index(port) && !has_word(name, "mask") && !has_word(name, "length");
      if (e && !tokens && compatible(encoder_.inputs[*e].type, port.type)) return bind(i, PortRole::kSource, *e);
    }
    if (has_word(name, "mask")) {
      return bind(
          i, has_word(name, "decoder") || has_word(name, "target") ? PortRole::kTargetMask : PortRole::kSourceMask);
    }
    if (has_word(name, "length") && is_index(port) && rank(port) == 1) return bind(i, PortRole::kSourceLengths);
    // The hidden states under whatever name: the one output of the encoder of this type.
    if (!is_float(element(port)) || has_word(name, "past")) return;
    std::vector<size_t> fits;
    for (size_t o = 0; o < encoder_.outputs.size(); ++o)
      if (compatible(encoder_.outputs[o].type, port.type) && rank(port) == rank(encoder_.outputs[o])) fits.push_back(o);
    if (fits.size() == 1 && has_word(name, "encoder")) bind(i, PortRole::kMemory, fits[0]);
  }

  void assign_index(size_t i) {
    const Plan::Port& port = decoder_.inputs[i];
    if (!is_index(port) || rank(port) > 2) return;
    const bool tokens = std::any_of(ports_.inputs.begin(), ports_.inputs.end(), [&](const PortBinding& b) {
      return b.role == PortRole::kTokens && assigned_[static_cast<size_t>(&b - ports_.inputs.data())];
    });
    if (has_word(port.name, "position") || has_word(port.name, "step") || tokens) {
      bind(i, PortRole::kPositions);
    } else {
      bind(i, PortRole::kTokens);
    }
  }

  // States whose names say nothing: pairs of the only possible type, or all in order if they fit pairwise.
  void pair_by_type() {
    std::vector<size_t> inputs, outputs;
    for (size_t i = 0; i < decoder_.inputs.size(); ++i)
      if (!assigned_[i] && !known_state(decoder_.inputs[i])) inputs.push_back(i);
    for (size_t o = 0; o < decoder_.outputs.size(); ++o)
      if (!taken_[o] && is_float(element(decoder_.outputs[o]))) outputs.push_back(o);
    const auto fit = [&](size_t i, size_t o) { return compatible(decoder_.inputs[i].type, decoder_.outputs[o].type); };
    if (inputs.size() == outputs.size()) {
      bool all = true;
      for (size_t n = 0; n < inputs.size(); ++n) all = all && fit(inputs[n], outputs[n]);
      if (all)
        for (size_t n = 0; n < inputs.size(); ++n) make_state(inputs[n], outputs[n]);
      return;
    }
    for (const size_t i : inputs) {
      std::vector<size_t> fits;
      for (const size_t o : outputs)
        if (!taken_[o] && fit(i, o)) fits.push_back(o);
      if (fits.size() == 1) make_state(i, fits[0]);
    }
  }

  bool known_state(const Plan::Port& port) const {
    const std::string key = state_key(port.name);
    return std::any_of(states_.begin(), states_.end(), [&](const StateSlot& s) { return s.key == key; });
  }

  // Inputs that another decoder gave, or that the encoder starts, and that nobody updates.
  void adopt_states() {
    for (size_t i = 0; i < decoder_.inputs.size(); ++i) {
      if (assigned_[i]) continue;
      if (known_state(decoder_.inputs[i])) {
        bind(i, PortRole::kState, state(decoder_.inputs[i]));
        continue;
      }
      for (size_t o = 0; o < encoder_.outputs.size(); ++o)
        if (state_key(encoder_.outputs[o].name) == state_key(decoder_.inputs[i].name) &&
            compatible(encoder_.outputs[o].type, decoder_.inputs[i].type))
          bind(i, PortRole::kMemory, o);
    }
  }

  void fail_on_rest() const {
    std::string unknown, outputs;
    for (size_t i = 0; i < decoder_.inputs.size(); ++i)
      if (!assigned_[i] && !decoder_.inputs[i].optional)
        unknown += fmt::format(" '{}' {}", decoder_.inputs[i].name, decoder_.inputs[i].type.to_string());
    if (unknown.empty()) return;
    for (size_t o = 0; o < decoder_.outputs.size(); ++o)
      if (!taken_[o])
        outputs += fmt::format(" '{}' {}", decoder_.outputs[o].name, decoder_.outputs[o].type.to_string());
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("the decoder has inputs that correspond to nothing:{}; outputs left:{}", unknown,
                            outputs.empty() ? " none" : outputs));
  }

  // Outputs of a first decoder are states even if it takes none: the next decoder will ask for them.
  void collect_outputs() {
    for (size_t o = 0; o < decoder_.outputs.size(); ++o) {
      if (taken_[o]) continue;
      const auto parts = words(decoder_.outputs[o].name);
      const bool present = !parts.empty() && (parts[0] == "present" || parts[0] == "past");
      if (!present) {
        ports_.others.push_back(o);
        continue;
      }
      Plan::Port port = decoder_.outputs[o];
      outputs_.emplace_back(state(port), o);
    }
    ports_.state_outputs.assign(states_.size(), std::nullopt);
    for (const auto& [s, o] : outputs_) ports_.state_outputs[s] = o;
  }

  const DecoderGraph& decoder_;
  const DecoderGraph& encoder_;
  std::vector<StateSlot>& states_;
  DecoderPorts ports_;
  std::vector<bool> assigned_, taken_;
  std::vector<std::pair<size_t, size_t>> outputs_;  // state, output
};

}  // namespace

DecoderPorts assign_ports(const DecoderGraph& decoder, const DecoderGraph& encoder, std::vector<StateSlot>& states) {
  return PortAssigner(decoder, encoder, states).run();
}

}  // namespace attune
