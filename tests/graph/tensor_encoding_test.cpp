// Every element type in every encoding that TensorProto has for it.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "graph/io/onnx_protos.h"
#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

// A tensor of `count` elements: its bytes, and the typed field that holds the same.
struct Encoding {
  DataType type;
  int64_t count;
  std::string bytes;
  std::function<void(onnx::TensorProto&)> typed;
};

template <class T>
std::string bytes_of(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
Encoding in_int32(DataType type, std::vector<T> values) {
  return {type, static_cast<int64_t>(values.size()), bytes_of(values), [values](onnx::TensorProto& p) {
            for (const T v : values) p.add_int32_data(static_cast<int32_t>(v));
          }};
}

std::vector<Encoding> encodings() {
  using D = DataType;
  std::vector<Encoding> all = {
      {D::kFloat, 3, bytes_of<float>({1.5f, -2, 1e30f}),
       [](auto& p) {
         for (float v : {1.5f, -2.0f, 1e30f}) p.add_float_data(v);
       }},
      {D::kDouble, 2, bytes_of<double>({1.5, -1e300}),
       [](auto& p) {
         for (double v : {1.5, -1e300}) p.add_double_data(v);
       }},
      {D::kComplex64, 1, bytes_of<float>({1, 2}),
       [](auto& p) {
         for (float v : {1.0f, 2.0f}) p.add_float_data(v);
       }},
      {D::kComplex128, 1, bytes_of<double>({1, 2}),
       [](auto& p) {
         for (double v : {1.0, 2.0}) p.add_double_data(v);
       }},
      {D::kInt64, 2, bytes_of<int64_t>({-1, int64_t{1} << 62}),
       [](auto& p) {
         for (int64_t v : {int64_t{-1}, int64_t{1} << 62}) p.add_int64_data(v);
       }},
      {D::kUInt64, 2, bytes_of<uint64_t>({1, ~uint64_t{0}}),
       [](auto& p) {
         for (uint64_t v : {uint64_t{1}, ~uint64_t{0}}) p.add_uint64_data(v);
       }},
      {D::kUInt32, 2, bytes_of<uint32_t>({1, 0xffffffffu}),
       [](auto& p) {
         for (uint64_t v : {uint64_t{1}, uint64_t{0xffffffff}}) p.add_uint64_data(v);
       }},
      in_int32<int32_t>(D::kInt32, {1, -2147483648}),
      in_int32<int16_t>(D::kInt16, {1, -32768}),
      in_int32<uint16_t>(D::kUInt16, {1, 65535}),
      in_int32<int8_t>(D::kInt8, {1, -128}),
      in_int32<uint8_t>(D::kUInt8, {1, 255}),
      in_int32<uint8_t>(D::kBool, {0, 1, 1}),
      in_int32<uint16_t>(D::kFloat16, {0x3c00, 0xfbff}),
      in_int32<uint16_t>(D::kBFloat16, {0x3f80, 0xff80}),
  };
  for (const D type : {D::kFloat8E4M3FN, D::kFloat8E4M3FNUZ, D::kFloat8E5M2, D::kFloat8E5M2FNUZ, D::kFloat8E8M0})
    all.push_back(in_int32<uint8_t>(type, {0x01, 0x7e, 0xff}));
  // Packed: three elements of 4 bits in two bytes, five of 2 bits in two, an entry for each byte.
  for (const D type : {D::kInt4, D::kUInt4, D::kFloat4E2M1}) {
    all.push_back(in_int32<uint8_t>(type, {0xf1, 0x07}));
    all.back().count = 3;
  }
  for (const D type : {D::kInt2, D::kUInt2}) {
    all.push_back(in_int32<uint8_t>(type, {0xe4, 0x02}));
    all.back().count = 5;
  }
  // Six bits, four elements in three bytes from the lowest bit on; an entry for each element.
  for (const D type : {D::kFloat6E2M3, D::kFloat6E3M2}) {
    const std::vector<unsigned> codes = {0x01, 0x3f, 0x20, 0x15, 0x2a};
    uint64_t packed = 0;
    for (size_t i = 0; i < codes.size(); ++i) packed |= uint64_t{codes[i]} << (6 * i);
    all.push_back({type, 5, std::string(reinterpret_cast<const char*>(&packed), 4), [codes](auto& p) {
                     for (const unsigned c : codes) p.add_int32_data(static_cast<int32_t>(c));
                   }});
  }
  return all;
}

onnx::TensorProto header(const Encoding& e) {
  onnx::TensorProto p;
  p.set_data_type(static_cast<int32_t>(e.type));
  p.add_dims(e.count);
  return p;
}

Tensor read(const onnx::TensorProto& proto) {
  const test::TemporaryFolder folder;
  return read_tensor_file(folder.write("t.pb", proto.SerializeAsString()), {}).tensor();
}

std::string bytes_of(const Tensor& t) { return {reinterpret_cast<const char*>(t.raw()), t.bytes()}; }

TEST(TensorEncoding, RawAndTypedFieldsAgree) {
  for (const Encoding& e : encodings()) {
    SCOPED_TRACE(std::string(name(e.type)));
    onnx::TensorProto raw = header(e), typed = header(e);
    raw.set_raw_data(e.bytes);
    e.typed(typed);
    for (const auto& proto : {raw, typed}) {
      const Tensor t = read(proto);
      EXPECT_EQ(t.type(), e.type);
      EXPECT_EQ(t.shape(), Shape({e.count}));
      EXPECT_EQ(bytes_of(t), e.bytes);
    }
    typed.mutable_dims()->Set(0, e.count + 8);
    raw.mutable_dims()->Set(0, e.count + 8);
    EXPECT_THAT(test::thrown([&] { read(typed); }), test::IsError(Error::Kind::kInvalidModel, "where its shape needs"));
    EXPECT_THAT(test::thrown([&] { read(raw); }), test::IsError(Error::Kind::kInvalidModel, "bytes and has"));
  }
}

TEST(TensorEncoding, EveryTypeIsCovered) {
  std::set<DataType> covered = {DataType::kUndefined, DataType::kString};
  for (const Encoding& e : encodings()) covered.insert(e.type);
  for (int i = 0; i < 64; ++i)
    if (onnx::TensorProto::DataType_IsValid(i)) {
      EXPECT_TRUE(covered.contains(static_cast<DataType>(i))) << i;
    }
}

TEST(TensorEncoding, WrittenTensorsAreReadBack) {
  for (const Encoding& e : encodings()) {
    SCOPED_TRACE(std::string(name(e.type)));
    onnx::TensorProto raw = header(e), written;
    raw.set_raw_data(e.bytes);
    ASSERT_TRUE(written.ParseFromString(serialize_tensor(read(raw), "name")));
    EXPECT_EQ(written.name(), "name");
    written.clear_name();
    EXPECT_EQ(written.SerializeAsString(), raw.SerializeAsString());
  }
}

// Long runs of floats are read as raw data; a wrong element type or count is noticed all the same.
TEST(TensorEncoding, LongTypedData) {
  onnx::TensorProto p;
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.add_dims(3000);
  for (int i = 0; i < 3000; ++i) p.add_float_data(static_cast<float>(i));
  const Tensor t = read(p);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(t.data<float>()[i], static_cast<float>(i));
  const std::string packed = p.SerializeAsString();
  onnx::TensorProto more = p;
  more.mutable_dims()->Set(0, 6000);
  more.MergeFromString(packed);  // a second run: 6000 values and dims (6000, 3000)
  more.mutable_dims()->RemoveLast();
  EXPECT_EQ(read(more).data<float>()[5999], 2999.0f);
  p.set_data_type(onnx::TensorProto::INT32);
  EXPECT_THAT(test::thrown([&] { read(p); }), test::IsError(Error::Kind::kInvalidModel, "has 0 values"));
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.mutable_dims()->Set(0, 3001);
  EXPECT_THAT(test::thrown([&] { read(p); }),
              test::IsError(Error::Kind::kInvalidModel, "needs 12004 bytes and has 12000"));
}

TEST(TensorEncoding, Strings) {
  onnx::TensorProto p;
  p.set_data_type(onnx::TensorProto::STRING);
  p.add_dims(2);
  p.add_string_data("a");
  p.add_string_data(std::string("\0\xff", 2));  // bytes, not necessarily UTF-8
  const Tensor t = read(p);
  EXPECT_EQ(t.strings(), (std::vector<std::string>{"a", std::string("\0\xff", 2)}));
  EXPECT_EQ(serialize_tensor(t), p.SerializeAsString());
  p.add_dims(2);
  EXPECT_THAT(test::thrown([&] { read(p); }), test::IsError(Error::Kind::kInvalidModel, "has 2 of them"));
}

TEST(TensorEncoding, BoolsAreZeroOrOne) {
  onnx::TensorProto p;
  p.set_data_type(onnx::TensorProto::BOOL);
  p.add_dims(3);
  p.set_raw_data(std::string("\x00\x02\xff", 3));
  EXPECT_EQ(bytes_of(read(p)), std::string("\x00\x01\x01", 3));
}

TEST(TensorEncoding, NothingAndScalars) {
  onnx::TensorProto p;
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.add_dims(0);
  p.add_dims(1 << 20);
  EXPECT_EQ(read(p).shape(), Shape({0, 1 << 20}));
  p.clear_dims();
  p.add_float_data(3);
  EXPECT_EQ(read(p).rank(), 0u);
  EXPECT_EQ(read(p).to_double(), std::vector<double>{3});
}

// Where both are there, raw data wins unless it is empty.
TEST(TensorEncoding, EmptyRawDataBesideTypedData) {
  onnx::TensorProto p;
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.add_dims(1);
  p.add_float_data(3);
  p.set_raw_data("");
  EXPECT_EQ(read(p).to_double(), std::vector<double>{3});
}

}  // namespace
}  // namespace attune
