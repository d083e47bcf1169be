#include "graph/io/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "graph/error.h"

namespace attune::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX data is little endian");

constexpr int kMaxDepth = 100;  // protobuf's own limit
constexpr uint32_t kRawData = 9;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

// What the length-delimited field `number` of `parent` holds.
Message child(Message parent, uint32_t number) {
  switch (parent) {
    case Message::kModel:
      return number == 7 ? Message::kGraph : number == 25 ? Message::kFunction : Message::kLeaf;
    case Message::kGraph:
      return number == 1    ? Message::kNode
             : number == 5  ? Message::kTensor
             : number == 15 ? Message::kSparseTensor
                            : Message::kLeaf;
    case Message::kNode:
      return number == 5 ? Message::kAttribute : Message::kLeaf;
    case Message::kAttribute:
      return number == 5 || number == 10   ? Message::kTensor
             : number == 6 || number == 11 ? Message::kGraph
                                           : Message::kLeaf;
    case Message::kSparseTensor:
      return number == 1 || number == 2 ? Message::kTensor : Message::kLeaf;
    case Message::kFunction:
      return number == 7 ? Message::kNode : number == 11 ? Message::kAttribute : Message::kLeaf;
    case Message::kSequence:
      return number == 3   ? Message::kTensor
             : number == 4 ? Message::kSparseTensor
             : number == 5 ? Message::kSequence
             : number == 6 ? Message::kMap
             : number == 7 ? Message::kOptional
                           : Message::kLeaf;
    case Message::kOptional:
      return number == 3   ? Message::kTensor
             : number == 4 ? Message::kSparseTensor
             : number == 5 ? Message::kSequence
             : number == 6 ? Message::kMap
             : number == 7 ? Message::kOptional
                           : Message::kLeaf;
    case Message::kMap:
      return number == 5 ? Message::kSequence : Message::kLeaf;
    default:
      return Message::kLeaf;
  }
}

// The fields of one message, in order. Positions are relative to the whole input.
class Fields {
 public:
  Fields(std::string_view all, size_t begin, size_t end) : all_(all), at_(begin), end_(end) {}

  // Moves to the next field; false at the end.
  bool next() {
    if (at_ == end_) return false;
    begin_ = at_;
    const uint64_t tag = varint();
    type_ = static_cast<uint32_t>(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) fail("a field number that can't be");
    number_ = static_cast<uint32_t>(tag >> 3);
    uint64_t size = 0;
    if (type_ == kVarint) {
      const size_t value = at_;
      varint();
      size = at_ - value;
      at_ = value;
    } else if (type_ == kFixed64) {
      size = 8;
    } else if (type_ == kFixed32) {
      size = 4;
    } else if (type_ == kDelimited) {
      size = varint();
    } else {
      fail(fmt::format("wire type {}", type_));
    }
    if (size > end_ - at_) fail(fmt::format("a field of {} bytes where {} are left", size, end_ - at_));
    payload_ = at_;
    size_ = static_cast<size_t>(size);
    at_ += size_;
    return true;
  }
  uint32_t number() const { return number_; }
  bool delimited() const { return type_ == kDelimited; }
  size_t payload() const { return payload_; }
  size_t size() const { return size_; }
  std::string_view tag() const { return {all_.data() + begin_, tag_size()}; }
  std::string_view whole() const { return all_.substr(begin_, at_ - begin_); }
  std::string_view content() const { return all_.substr(payload_, size_); }

 private:
  size_t tag_size() const {
    size_t n = 1;
    while (static_cast<unsigned char>(all_[begin_ + n - 1]) & 0x80u) ++n;
    return n;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) fail("the data ends inside a number");
      const auto byte = static_cast<unsigned char>(all_[at_++]);
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80u)) return value;
    }
    fail("a number longer than 10 bytes");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Error::Kind::kInvalidModel, fmt::format("not a valid ONNX file: {} at byte {}", what, at_));
  }

  std::string_view all_;
  size_t at_, end_, begin_ = 0, payload_ = 0, size_ = 0;
  uint32_t number_ = 0, type_ = 0;
};

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

size_t varint_size(uint64_t value) { return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7; }

// The field of a tensor whose content is what raw_data would hold: raw_data itself, or one packed run of floats or
// doubles of the tensor's own type that is worth keeping out.
uint32_t raw_field(std::string_view all, size_t begin, size_t end) {
  constexpr uint32_t kDataType = 2, kFloatData = 4, kDoubleData = 10;
  constexpr size_t kWorthIt = 4096;
  uint32_t candidate = 0, runs = 0;
  bool float_type = false, double_type = false;
  Fields f(all, begin, end);
  while (f.next()) {
    if (f.number() == kRawData) return kRawData;
    if (f.number() == kDataType && f.size() == 1) {
      const char type = f.content()[0];
      float_type = type == 1 || type == 14;
      double_type = type == 11 || type == 15;
    }
    if (f.number() == kFloatData || f.number() == kDoubleData) {
      ++runs;
      if (f.delimited() && f.size() >= kWorthIt) candidate = f.number();
    }
  }
  const bool fits = (candidate == kFloatData && float_type) || (candidate == kDoubleData && double_type);
  return runs == 1 && fits ? candidate : kRawData;
}

// Lengths of nested messages are written in five bytes, so that they can be filled in afterwards.
constexpr size_t kPaddedLength = 5;

void append_skeleton(std::string_view all, size_t begin, size_t end, Message kind, int depth, std::string& out) {
  if (depth > kMaxDepth)
    throw Error(Error::Kind::kLimit, fmt::format("the file nests deeper than {} messages", kMaxDepth));
  const uint32_t raw = kind == Message::kTensor ? raw_field(all, begin, end) : 0;
  Fields f(all, begin, end);
  while (f.next()) {
    if (!f.delimited()) {
      out.append(f.whole());
      continue;
    }
    if (kind == Message::kTensor && f.number() == raw) {
      const std::string reference = encode({f.payload(), f.size()});
      append_varint(out, kRawData << 3 | kDelimited);
      append_varint(out, reference.size());
      out.append(reference);
      continue;
    }
    const Message inner = child(kind, f.number());
    if (inner == Message::kLeaf) {
      out.append(f.whole());
      continue;
    }
    out.append(f.tag());
    const size_t length_at = out.size();
    out.append(kPaddedLength, '\0');
    append_skeleton(all, f.payload(), f.payload() + f.size(), inner, depth + 1, out);
    const uint64_t length = out.size() - length_at - kPaddedLength;
    if (length >= uint64_t{1} << 31)
      throw Error(Error::Kind::kLimit, "the model without its tensors is larger than 2 GB");
    for (size_t i = 0; i < kPaddedLength; ++i) {
      const auto bits = static_cast<unsigned char>((length >> (7 * i)) & 0x7fu);
      out[length_at + i] = static_cast<char>(i + 1 < kPaddedLength ? bits | 0x80u : bits);
    }
  }
}

}  // namespace

std::string encode(const RawReference& reference) {
  std::string out(16, '\0');
  std::memcpy(out.data(), &reference.offset, 8);
  std::memcpy(out.data() + 8, &reference.size, 8);
  return out;
}

RawReference decode(std::string_view field) {
  if (field.size() != 16) throw Error(Error::Kind::kInternal, "a tensor's raw_data isn't a reference");
  RawReference reference;
  std::memcpy(&reference.offset, field.data(), 8);
  std::memcpy(&reference.size, field.data() + 8, 8);
  return reference;
}

std::string skeleton(std::string_view bytes, Message root) {
  std::string out;
  append_skeleton(bytes, 0, bytes.size(), root, 1, out);
  if (out.size() >= size_t{1} << 31)
    throw Error(Error::Kind::kLimit, "the model without its tensors is larger than 2 GB");
  return out;
}

Expander::Expander(std::string_view skeleton, Message root, std::vector<std::string_view> data)
    : skeleton_(skeleton), root_(root), data_(std::move(data)) {
  size_ = measure(skeleton_, root_);
}

uint64_t Expander::measure(std::string_view message, Message kind) {
  uint64_t total = 0;
  Fields f(message, 0, message.size());
  while (f.next()) {
    const Message inner = f.delimited() ? child(kind, f.number()) : Message::kLeaf;
    if (f.delimited() && kind == Message::kTensor && f.number() == kRawData) {
      const size_t size = data_.at(static_cast<size_t>(decode(f.content()).offset)).size();
      total += f.tag().size() + varint_size(size) + size;
    } else if (inner == Message::kLeaf) {
      total += f.whole().size();
    } else {
      const size_t slot = sizes_.size();
      sizes_.push_back(0);
      const uint64_t size = measure(f.content(), inner);
      sizes_[slot] = size;
      total += f.tag().size() + varint_size(size) + size;
    }
  }
  return total;
}

void Expander::write(const std::function<void(std::string_view)>& sink) const {
  size_t slot = 0;
  std::string buffer;
  const auto flush = [&] {
    if (!buffer.empty()) sink(buffer);
    buffer.clear();
  };
  const std::function<void(std::string_view, Message)> emit = [&](std::string_view message, Message kind) {
    Fields f(message, 0, message.size());
    while (f.next()) {
      const Message inner = f.delimited() ? child(kind, f.number()) : Message::kLeaf;
      if (f.delimited() && kind == Message::kTensor && f.number() == kRawData) {
        const std::string_view data = data_[static_cast<size_t>(decode(f.content()).offset)];
        buffer.append(f.tag());
        append_varint(buffer, data.size());
        if (data.size() < 4096) {
          buffer.append(data);
        } else {
          flush();
          sink(data);
        }
      } else if (inner == Message::kLeaf) {
        buffer.append(f.whole());
      } else {
        buffer.append(f.tag());
        append_varint(buffer, sizes_[slot++]);
        emit(f.content(), inner);
      }
      if (buffer.size() >= size_t{1} << 16) flush();
    }
  };
  emit(skeleton_, root_);
  flush();
}

}  // namespace attune::wire
