#include "graph/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "graph/io/file_bytes.h"
#include "graph/io/output_file.h"
#include "graph/io/utf8.h"

namespace attune {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderAlignment = 64;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        descr = true;
        skip();
        if (at_ < text_.size() && text_[at_] == '[')
          throw Error(Error::Kind::kUnsupported, "an array of records; expected one element type");
        header.descr = string();
      } else if (key == "fortran_order") {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape") {
        shape = true;
        header.shape = tuple();
      } else {
        fail(fmt::format("unknown key '{}'", key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) fail("text after its end");
    if (!descr || !order || !shape) fail("'descr', 'fortran_order' or 'shape' is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    invalid(fmt::format("the .npy header is damaged at character {}: {}", at_, what));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string doesn't end");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("expected True or False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!take(')')) {
      skip();
      int64_t size = 0;
      const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("expected a size");
      at_ = static_cast<size_t>(stop - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
      out.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Layout {
  DataType type = DataType::kUndefined;
  size_t item = 0;  // bytes of one element in the file
  size_t swap = 1;  // size of the units whose bytes are reversed; 1: none
  char string = 0;  // 'U' or 'S'
};

Layout layout_of(const std::string& descr) {
  struct Row {
    std::string_view code;
    DataType type;
  };
  constexpr Row kRows[] = {{"b1", DataType::kBool},      {"i1", DataType::kInt8},        {"u1", DataType::kUInt8},
                           {"i2", DataType::kInt16},     {"u2", DataType::kUInt16},      {"i4", DataType::kInt32},
                           {"u4", DataType::kUInt32},    {"i8", DataType::kInt64},       {"u8", DataType::kUInt64},
                           {"f2", DataType::kFloat16},   {"f4", DataType::kFloat},       {"f8", DataType::kDouble},
                           {"c8", DataType::kComplex64}, {"c16", DataType::kComplex128}, {"V2", DataType::kBFloat16}};
  const bool ordered = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(ordered ? 1 : 0);
  const bool big = ordered && descr[0] == '>';
  Layout layout;
  for (const Row& row : kRows)
    if (row.code == code) {
      layout.type = row.type;
      layout.item = storage_bytes(row.type, 1);
      const bool complex = row.type == DataType::kComplex64 || row.type == DataType::kComplex128;
      layout.swap = big ? (complex ? layout.item / 2 : layout.item) : 1;
      return layout;
    }
  if (!code.empty() && (code[0] == 'U' || code[0] == 'S')) {
    size_t length = 0;
    const auto [stop, error] = std::from_chars(code.data() + 1, code.data() + code.size(), length);
    if (error == std::errc() && stop == code.data() + code.size() && length < (size_t{1} << 40)) {
      layout.type = DataType::kString;
      layout.string = code[0];
      layout.item = code[0] == 'U' ? 4 * length : length;
      layout.swap = big && code[0] == 'U' ? 4 : 1;
      return layout;
    }
  }
  throw Error(Error::Kind::kUnsupported, fmt::format("element type '{}' (NumPy)", descr));
}

std::string element_text(const char* data, const Layout& layout) {
  std::string out;
  if (layout.string == 'S') {
    out.assign(data, layout.item);
  } else {
    for (size_t i = 0; i < layout.item; i += 4) {
      uint32_t c = 0;
      std::memcpy(&c, data + i, 4);
      if (layout.swap == 4) c = __builtin_bswap32(c);
      if (c > 0x10ffff) invalid(fmt::format("a string holds the code point {:#x}", c));
      append_utf8(out, static_cast<char32_t>(c));
    }
  }
  out.resize(out.find_last_not_of('\0') + 1);  // NumPy pads with zeros
  return out;
}

// Position in the file of each element in row-major order, one after the other.
class FileOrder {
 public:
  FileOrder(const Shape& shape, bool fortran) : shape_(shape), index_(shape), fortran_(fortran) {
    std::fill(index_.begin(), index_.end(), 0);
    int64_t stride = 1;
    strides_ = shape;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      strides_[axis] = stride;
      stride *= shape[axis];
    }
  }
  size_t next() {
    if (!fortran_) return static_cast<size_t>(at_++);
    const int64_t result = at_;
    for (size_t axis = shape_.rank(); axis-- > 0;) {
      at_ += strides_[axis];
      if (++index_[axis] < shape_[axis]) break;
      at_ -= strides_[axis] * shape_[axis];
      index_[axis] = 0;
    }
    return static_cast<size_t>(result);
  }

 private:
  Shape shape_, index_, strides_;
  bool fortran_;
  int64_t at_ = 0;
};

Tensor convert(const Header& header, const Layout& layout, const Shape& shape, std::string_view data) {
  const auto count = static_cast<size_t>(shape.count());
  FileOrder order(shape, header.fortran_order && shape.rank() > 1);
  if (layout.type == DataType::kString) {
    std::vector<std::string> strings(count);
    for (std::string& s : strings) s = element_text(data.data() + order.next() * layout.item, layout);
    return Tensor::from_strings(shape, std::move(strings));
  }
  Tensor t = Tensor::allocate(layout.type, shape);
  auto* out = reinterpret_cast<char*>(t.mutable_raw());
  if (header.fortran_order && shape.rank() > 1) {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(out + i * layout.item, data.data() + order.next() * layout.item, layout.item);
  } else if (!data.empty()) {
    std::memcpy(out, data.data(), data.size());
  }
  if (layout.swap > 1)
    for (size_t i = 0; i < data.size(); i += layout.swap) std::reverse(out + i, out + i + layout.swap);
  if (layout.type == DataType::kBool)
    for (size_t i = 0; i < count; ++i) out[i] = out[i] != 0;
  return t;
}

std::string descr_of(DataType type, size_t longest) {
  switch (type) {
    case DataType::kBool:
      return "|b1";
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kInt2:
      return "|i1";
    case DataType::kUInt8:
    case DataType::kUInt4:
    case DataType::kUInt2:
      return "|u1";
    case DataType::kInt16:
      return "<i2";
    case DataType::kUInt16:
      return "<u2";
    case DataType::kInt32:
      return "<i4";
    case DataType::kUInt32:
      return "<u4";
    case DataType::kInt64:
      return "<i8";
    case DataType::kUInt64:
      return "<u8";
    case DataType::kFloat16:
      return "<f2";
    case DataType::kFloat:
      return "<f4";
    case DataType::kDouble:
      return "<f8";
    case DataType::kComplex64:
      return "<c8";
    case DataType::kComplex128:
      return "<c16";
    case DataType::kBFloat16:
      return "<V2";
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat8E8M0:
      return "|V1";
    case DataType::kString:
      return fmt::format("<U{}", longest);
    default:
      throw Error(Error::Kind::kUnsupported, fmt::format("NumPy has nothing for {}", name(type)));
  }
}

// Elements of 2 or 4 bits, one to a byte.
std::string unpacked(const Tensor& t) {
  const auto bits = static_cast<unsigned>(element_bits(t.type()));
  const auto* raw = reinterpret_cast<const uint8_t*>(t.raw());
  std::string out(static_cast<size_t>(t.count()), '\0');
  for (size_t i = 0; i < out.size(); ++i) {
    const unsigned value = (raw[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1u);
    const bool negative = is_signed_integer(t.type()) && (value >> (bits - 1u)) != 0;
    out[i] = static_cast<char>(negative ? static_cast<int>(value) - (1 << bits) : static_cast<int>(value));
  }
  return out;
}

std::vector<std::u32string> code_points(const Tensor& t) {
  std::vector<std::u32string> out;
  for (const std::string& s : t.strings()) {
    auto text = from_utf8(s);
    if (!text) invalid(fmt::format("string {} isn't UTF-8", out.size()));
    out.push_back(std::move(*text));
  }
  return out;
}

}  // namespace

Tensor parse_npy(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) invalid("it isn't a .npy file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) throw Error(Error::Kind::kUnsupported, fmt::format("version {} of .npy", version));
  size_t begin = version == 1 ? 10 : 12;
  if (bytes.size() < begin) invalid("the .npy header ends early");
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) invalid("the .npy header ends early");

  const Header header = HeaderParser(bytes.substr(begin, length)).parse();
  const Layout layout = layout_of(header.descr);
  const Shape shape{std::span<const int64_t>(header.shape)};
  const std::string_view data = bytes.substr(begin + length);
  size_t needed = layout.item;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(needed, static_cast<size_t>(size), &needed))
      invalid(fmt::format("shape {} has too many elements", shape.to_string()));
  // Strings of length 0 take no bytes in the file, but some here.
  if (layout.item == 0 && shape.count() > (int64_t{1} << 24))
    invalid(fmt::format("shape {} of empty strings", shape.to_string()));
  if (data.size() != needed)
    invalid(fmt::format("shape {} of '{}' needs {} bytes and there are {}", shape.to_string(), header.descr, needed,
                        data.size()));
  return convert(header, layout, shape, data);
}

std::string serialize_npy(const Tensor& tensor) {
  const Tensor t = tensor.to_contiguous();
  std::vector<std::u32string> strings;
  size_t longest = 1;
  if (t.type() == DataType::kString) strings = code_points(t);
  for (const auto& s : strings) longest = std::max(longest, s.size());

  std::string shape;
  for (const int64_t size : t.shape()) shape += fmt::format("{}, ", size);
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  if (t.rank() == 1) shape.pop_back();
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(t.type(), longest), shape);
  const size_t unpadded = 10 + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header.push_back('\n');

  std::string out(kMagic);
  out.append({1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)});
  out.append(header);
  if (t.type() == DataType::kString) {
    for (const auto& s : strings) {
      out.append(reinterpret_cast<const char*>(s.data()), 4 * s.size());
      out.append(4 * (longest - s.size()), '\0');
    }
  } else if (element_bits(t.type()) < 8) {
    out.append(unpacked(t));
  } else {
    out.append(reinterpret_cast<const char*>(t.raw()), t.bytes());
  }
  return out;
}

Tensor read_npy(const std::filesystem::path& file) {
  return within(file.string(), [&] {
    const FileBytes bytes = FileBytes::open(file);
    return parse_npy(bytes.bytes);
  });
}

void write_npy(const std::filesystem::path& file, const Tensor& tensor) { write_file(file, serialize_npy(tensor)); }

}  // namespace attune
