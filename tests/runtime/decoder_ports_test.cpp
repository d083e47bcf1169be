#include "runtime/decoder_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

namespace attune {
namespace {

using Ports = std::vector<Plan::Port>;

Plan::Port port(const std::string& name, DataType type, const std::vector<std::string>& shape) {
  Dims dims;
  for (const auto& d : shape)
    dims.push_back(std::isdigit(static_cast<unsigned char>(d.front())) != 0 ? Dim(std::stoll(d)) : Dim::parse(d));
  return {name, ValueType::of(type, dims)};
}
Plan::Port ids(const std::string& name, const std::vector<std::string>& shape) {
  return port(name, DataType::kInt64, shape);
}
Plan::Port states(const std::string& name, const std::vector<std::string>& shape) {
  return port(name, DataType::kFloat, shape);
}

const Ports kEncoderInputs{ids("input_ids", {"b", "s"}), ids("attention_mask", {"b", "s"})};
const Ports kEncoderOutputs{states("last_hidden_state", {"b", "s", "64"})};

PortRole role(const DecoderPorts& ports, const Ports& inputs, const std::string& name) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return ports.inputs[i].role;
  throw std::out_of_range(name);
}

TEST(DecoderPorts, CachesOfTwoDecoders) {
  std::vector<StateSlot> slots;
  const Ports first_inputs{ids("encoder_attention_mask", {"b", "s"}), ids("input_ids", {"b", "t"}),
                           states("encoder_hidden_states", {"b", "s", "64"})};
  const Ports first_outputs{states("logits", {"b", "t", "99"}), states("present.0.decoder.key", {"b", "4", "t", "16"}),
                            states("present.0.encoder.key", {"b", "4", "s", "16"})};
  const auto first = assign_ports({first_inputs, first_outputs}, {kEncoderInputs, kEncoderOutputs}, slots);
  EXPECT_EQ(role(first, first_inputs, "encoder_attention_mask"), PortRole::kSource);
  EXPECT_EQ(role(first, first_inputs, "input_ids"), PortRole::kTokens);
  EXPECT_EQ(role(first, first_inputs, "encoder_hidden_states"), PortRole::kMemory);
  ASSERT_EQ(slots.size(), 2U);

  const Ports next_inputs{ids("input_ids", {"b", "1"}), states("past_key_values.0.decoder.key", {"b", "4", "p", "16"}),
                          states("past_key_values.0.encoder.key", {"b", "4", "s", "16"})};
  const Ports next_outputs{states("logits", {"b", "1", "99"}),
                           states("present.0.decoder.key", {"b", "4", "p + 1", "16"})};
  const auto next = assign_ports({next_inputs, next_outputs}, {kEncoderInputs, kEncoderOutputs}, slots);
  EXPECT_EQ(slots.size(), 2U) << "both decoders speak of the same states";
  EXPECT_EQ(role(next, next_inputs, "past_key_values.0.encoder.key"), PortRole::kState);
  EXPECT_TRUE(slots[0].updated);
  EXPECT_FALSE(slots[1].updated) << "cross-attention's keys stay";
}

// As optimum exports Pix2Struct: the plain name is the encoder's mask there and the decoder's here.
TEST(DecoderPorts, TheDecodersOwnMaskBesideTheSources) {
  std::vector<StateSlot> slots;
  const Ports encoder_inputs{states("flattened_patches", {"b", "12", "50"}), ids("attention_mask", {"b", "12"})};
  const Ports inputs{ids("encoder_attention_mask", {"b", "12"}), ids("input_ids", {"b", "t"}),
                     ids("attention_mask", {"b", "t"}), states("encoder_hidden_states", {"b", "12", "64"})};
  const Ports outputs{states("logits", {"b", "t", "99"})};
  const auto ports = assign_ports({inputs, outputs}, {encoder_inputs, kEncoderOutputs}, slots);
  EXPECT_EQ(role(ports, inputs, "encoder_attention_mask"), PortRole::kSource);
  EXPECT_EQ(role(ports, inputs, "attention_mask"), PortRole::kTargetMask);
}

TEST(DecoderPorts, RecurrentSteps) {
  std::vector<StateSlot> slots;
  const Ports inputs{ids("token", {"b", "1"}),           ids("position", {"b", "1"}),
                     states("memory", {"b", "s", "64"}), ids("attention_mask", {"b", "s"}),
                     states("c1", {"b", "1", "8"}),      states("c2", {"b", "1", "8"})};
  const Ports outputs{states("logits", {"b", "1", "99"}), states("new_c1", {"b", "1", "8"}),
                      states("new_c2", {"b", "1", "8"})};
  const Ports encoder_outputs{states("memory", {"b", "s", "64"})};
  const auto ports = assign_ports({inputs, outputs}, {kEncoderInputs, encoder_outputs}, slots);
  EXPECT_EQ(role(ports, inputs, "token"), PortRole::kTokens);
  EXPECT_EQ(role(ports, inputs, "position"), PortRole::kPositions);
  EXPECT_EQ(role(ports, inputs, "memory"), PortRole::kMemory);
  EXPECT_EQ(role(ports, inputs, "attention_mask"), PortRole::kSource);
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_EQ(ports.state_outputs[0], 1U);
  EXPECT_EQ(ports.state_outputs[1], 2U);
  EXPECT_FALSE(slots[0].encoder_output);
}

TEST(DecoderPorts, StatesWhoseNamesSayNothingArePairedByType) {
  std::vector<StateSlot> slots;
  const Ports inputs{ids("x", {"b", "1"}), states("a", {"b", "8"}), states("q", {"2", "b", "16"})};
  const Ports outputs{states("scores", {"b", "99"}), states("u", {"b", "8"}), states("v", {"2", "b", "16"})};
  const auto ports = assign_ports({inputs, outputs}, {kEncoderInputs, kEncoderOutputs}, slots);
  EXPECT_EQ(role(ports, inputs, "a"), PortRole::kState);
  EXPECT_EQ(role(ports, inputs, "q"), PortRole::kState);
  EXPECT_EQ(ports.logits, 0U);
  EXPECT_EQ(ports.state_outputs[0], 1U);
  EXPECT_EQ(ports.state_outputs[1], 2U);
}

TEST(DecoderPorts, ListsWhatCorrespondsToNothing) {
  std::vector<StateSlot> slots;
  const Ports inputs{ids("x", {"b", "1"}), states("mystery", {"b", "8"})};
  const Ports outputs{states("logits", {"b", "99"}), states("left_over", {"b", "7"})};
  try {
    assign_ports({inputs, outputs}, {kEncoderInputs, kEncoderOutputs}, slots);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("'mystery' float(b,8)"));
    EXPECT_THAT(e.what(), testing::HasSubstr("'left_over' float(b,7)"));
  }
}

}  // namespace
}  // namespace attune
