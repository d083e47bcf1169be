// The Protocol Buffers wire format of ONNX messages, as far as it takes to keep tensor data out of protobuf objects.
//
// A serialized model is turned into a skeleton: the same message with each TensorProto.raw_data replaced by a reference
// of 16 bytes (offset and size); a long float_data or double_data is taken for the raw data that it equals. protobuf
// parses the skeleton only, so that data is neither copied nor bounded by its 2 GB limit. Writing does the reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::wire {

// Messages on the way to a TensorProto. kLeaf: anything else.
enum class Message : uint8_t {
  kLeaf,
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kFunction,
  kSequence,
  kOptional,
  kMap
};

struct RawReference {
  uint64_t offset = 0;
  uint64_t size = 0;
};
std::string encode(const RawReference& reference);
// Throws Error(kInternal) if `field` isn't what encode() gives.
RawReference decode(std::string_view field);

// The skeleton of `bytes`; references hold offsets in `bytes`. Throws Error(kInvalidModel) with the position where
// `bytes` isn't a well-formed message, or nests deeper than protobuf accepts.
std::string skeleton(std::string_view bytes, Message root);

// Expands a skeleton: each reference's `offset` is an index into `data`, the bytes to put there.
class Expander {
 public:
  Expander(std::string_view skeleton, Message root, std::vector<std::string_view> data);
  uint64_t size() const { return size_; }
  // Calls `sink` with consecutive pieces of the message.
  void write(const std::function<void(std::string_view)>& sink) const;

 private:
  uint64_t measure(std::string_view message, Message kind);
  std::string_view skeleton_;
  Message root_;
  std::vector<std::string_view> data_;
  std::vector<uint64_t> sizes_;  // of the messages that hold tensors, in the order of their beginnings
  uint64_t size_ = 0;
};

}  // namespace attune::wire
