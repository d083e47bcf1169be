#include "graph/io/npy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/io/file_bytes.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using test::IsError;
using test::TemporaryFolder;
using test::thrown;
using Kind = Error::Kind;

// A file as numpy.lib.format describes it.
std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(version));
  out.push_back(0);
  const std::string header = dictionary + "\n";
  for (size_t i = 0; i < (version == 1 ? 2u : 4u); ++i)
    out.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xff));
  return out + header + data;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

template <class T>
std::string bytes_of(std::vector<T> values, bool reversed = false) {
  std::string out;
  for (const T v : values) {
    std::string element(reinterpret_cast<const char*>(&v), sizeof v);
    if (reversed) std::reverse(element.begin(), element.end());
    out += element;
  }
  return out;
}

template <class T>
void expect_numbers(const std::string& code, DataType type) {
  SCOPED_TRACE(code);
  const std::vector<T> values = {T(1), T(2), T(3), T(100), T(0), T(7)};
  const std::vector<double> expected = {1, 2, 3, 100, 0, 7};
  for (const bool big : {false, true}) {
    const Tensor t = parse_npy(npy(header((big ? ">" : "<") + code, "(2, 3)"), bytes_of(values, big)));
    EXPECT_EQ(t.type(), type);
    EXPECT_EQ(t.shape(), Shape({2, 3}));
    EXPECT_EQ(t.to_double(), expected);
    const Tensor again = parse_npy(serialize_npy(t));
    EXPECT_EQ(again.type(), type);
    EXPECT_EQ(again.to_double(), expected);
  }
}

TEST(Npy, NumbersInBothByteOrders) {
  expect_numbers<int8_t>("i1", DataType::kInt8);
  expect_numbers<uint8_t>("u1", DataType::kUInt8);
  expect_numbers<int16_t>("i2", DataType::kInt16);
  expect_numbers<uint16_t>("u2", DataType::kUInt16);
  expect_numbers<int32_t>("i4", DataType::kInt32);
  expect_numbers<uint32_t>("u4", DataType::kUInt32);
  expect_numbers<int64_t>("i8", DataType::kInt64);
  expect_numbers<uint64_t>("u8", DataType::kUInt64);
  expect_numbers<float>("f4", DataType::kFloat);
  expect_numbers<double>("f8", DataType::kDouble);
}

TEST(Npy, SixteenBitFloatsBoolsComplex) {
  const Tensor half = parse_npy(npy(header("<f2", "(2,)"), bytes_of<uint16_t>({0x3c00, 0xc000})));
  EXPECT_EQ(half.to_double(), (std::vector<double>{1, -2}));
  const Tensor brain = parse_npy(npy(header("<V2", "(2,)"), bytes_of<uint16_t>({0x3f80, 0xc000})));
  EXPECT_EQ(brain.type(), DataType::kBFloat16);
  EXPECT_EQ(brain.to_double(), (std::vector<double>{1, -2}));
  EXPECT_NE(serialize_npy(brain).find("'<V2'"), std::string::npos);
  const Tensor flags = parse_npy(npy(header("|b1", "(3,)"), std::string("\0\1\2", 3)));
  EXPECT_EQ(flags.to_int64(), (std::vector<int64_t>{0, 1, 1}));
  const Tensor complex = parse_npy(npy(header(">c8", "()"), bytes_of<float>({1, 2}, true)));
  EXPECT_EQ(complex.type(), DataType::kComplex64);
  EXPECT_EQ(std::memcmp(complex.raw(), bytes_of<float>({1, 2}).data(), 8), 0);
}

TEST(Npy, FortranOrder) {
  // Element (i, j, k) is 100 i + 10 j + k; the first axis varies fastest.
  std::vector<float> values;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) values.push_back(static_cast<float>(100 * i + 10 * j + k));
  const Tensor t = parse_npy(npy(header("<f4", "(2, 3, 4)", true), bytes_of(values)));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(t.data<float>()[12 * i + 4 * j + k], static_cast<float>(100 * i + 10 * j + k));
  EXPECT_EQ(parse_npy(npy(header("<f4", "(3,)", true), bytes_of<float>({1, 2, 3}))).to_double(),
            (std::vector<double>{1, 2, 3}));
}

TEST(Npy, Strings) {
  const auto utf32 = [](std::u32string s) {
    return std::string(reinterpret_cast<const char*>(s.data()), 4 * s.size());
  };
  const Tensor t = parse_npy(npy(header("<U2", "(3,)"), utf32(std::u32string(U"ab\U0001F600é\0\0", 6))));
  EXPECT_EQ(t.strings(), (std::vector<std::string>{"ab", "\xF0\x9F\x98\x80\xC3\xA9", ""}));
  EXPECT_EQ(parse_npy(serialize_npy(t)).strings(), t.strings());
  const Tensor bytes = parse_npy(npy(header("|S3", "(2,)"), std::string("abc\xff\0\0", 6)));
  EXPECT_EQ(bytes.strings(), (std::vector<std::string>{"abc", "\xff"}));
  EXPECT_THAT(thrown([&] { serialize_npy(bytes); }), IsError(Kind::kInvalidArgument, "string 1 isn't UTF-8"));
  EXPECT_THAT(thrown([&] { parse_npy(npy(header("<U1", "(1,)"), std::string("\xff\xff\xff\xff"))); }),
              IsError(Kind::kInvalidArgument, "code point 0xffffffff"));
}

TEST(Npy, PackedTypesAreWidened) {
  Tensor t = Tensor::allocate(DataType::kInt4, {3});
  t.mutable_raw()[0] = std::byte{0x8f};  // -1, -8
  t.mutable_raw()[1] = std::byte{0x07};  // 7
  const Tensor wide = parse_npy(serialize_npy(t));
  EXPECT_EQ(wide.type(), DataType::kInt8);
  EXPECT_EQ(wide.to_int64(), (std::vector<int64_t>{-1, -8, 7}));
}

TEST(Npy, HeadersAsOthersWriteThem) {
  EXPECT_EQ(
      parse_npy(npy("{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"<i4\"}", bytes_of<int>({1, 2}), 2)).shape(),
      Shape({1, 2}));
  EXPECT_EQ(parse_npy(npy(header("=i4", "()"), bytes_of<int>({5}), 3)).rank(), 0u);
  EXPECT_EQ(parse_npy(npy(header("<i4", "(0, 7)"), "")).shape(), Shape({0, 7}));
  // Data begins at a multiple of 64 bytes, as NumPy maps it.
  EXPECT_EQ((serialize_npy(Tensor::scalar(1.0f)).size() - 4) % 64, 0u);
}

TEST(Npy, DamagedFiles) {
  const auto refused = [](const std::string& bytes, Kind kind, const char* message) {
    EXPECT_THAT(thrown([&] { parse_npy(bytes); }), IsError(kind, message));
  };
  refused("", Kind::kInvalidArgument, "isn't a .npy file");
  refused("\x93NUMPY\x09", Kind::kInvalidArgument, "isn't a .npy file");
  refused(npy(header("<f4", "(2,)"), "1234"), Kind::kInvalidArgument,
          "shape (2) of '<f4' needs 8 bytes and there are 4");
  refused(npy(header("<f4", "(2,)"), "123456789"), Kind::kInvalidArgument, "needs 8 bytes and there are 9");
  refused(npy(header("<f4", "(-1,)"), ""), Kind::kInvalidArgument, "expected a size");
  refused(npy(header("<f4", "(4294967296, 4294967296)"), ""), Kind::kInvalidArgument, "too many elements");
  refused(npy(header("<U0", "(1000000000,)"), ""), Kind::kInvalidArgument, "empty strings");
  refused(npy(header("|O", "(1,)"), "12345678"), Kind::kUnsupported, "element type '|O'");
  refused(npy(header("|V1", "(1,)"), "1"), Kind::kUnsupported, "element type '|V1'");
  refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), Kind::kUnsupported,
          "records");
  refused(npy("{'descr': '<f4', 'shape': (1,)}", "1234"), Kind::kInvalidArgument, "is missing");
  refused(npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "1234"), Kind::kInvalidArgument,
          "True or False");
  const std::string good = serialize_npy(Tensor::from<float>({2}, {1, 2}));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(parse_npy(good.substr(0, n)), Error);
  for (size_t i = 0; i < good.size() - 8; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string broken = good;
      broken[i] = static_cast<char>(broken[i] ^ (1 << bit));
      try {
        parse_npy(broken);
      } catch (const Error&) {
      }
    }
}

TEST(Npz, WrittenIsReadStoredAndDeflated) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  tensors["floats"] = Tensor::from<float>({100, 100}, std::vector<float>(10000, 1.5f));
  tensors["strings"] = Tensor::from_strings({1}, {"é"});
  tensors["a/b"] = Tensor::scalar<int64_t>(7);
  write_npz(folder / "stored.npz", tensors);
  write_npz(folder / "deflated.npz", tensors, true);
  EXPECT_LT(std::filesystem::file_size(folder / "deflated.npz"), 2000u);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const NamedTensors again = read_npz(folder / name);
    ASSERT_EQ(again.size(), 3u);
    EXPECT_EQ(again.at("floats").to_double(), tensors.at("floats").to_double());
    EXPECT_EQ(again.at("strings").strings(), tensors.at("strings").strings());
    EXPECT_EQ(again.at("a/b").to_int64(), std::vector<int64_t>{7});
  }
  write_npz(folder / "again.npz", tensors);
  EXPECT_EQ(test::read_file(folder / "stored.npz"), test::read_file(folder / "again.npz"));
  write_npz(folder / "empty.npz", {});
  EXPECT_TRUE(read_npz(folder / "empty.npz").empty());
}

TEST(Npz, OfALinkTheFileIsReplaced) {
  const TemporaryFolder folder;
  folder.write("file.npz", "old");
  std::filesystem::create_symlink("file.npz", folder / "link.npz");
  write_npz(folder / "link.npz", {{"a", Tensor::scalar(1.0f)}});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.npz"));
  EXPECT_EQ(read_npz(folder / "file.npz").size(), 1u);
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(Npz, APipeIsWrittenTo) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const Descriptor reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  const NamedTensors tensors{{"a", Tensor::scalar(1.0f)}};
  write_npz(folder / "pipe", tensors);
  write_npz(folder / "file.npz", tensors);
  std::string got(4096, '\0');
  got.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(reader.get(), got.data(), got.size()))));
  EXPECT_EQ(got, test::read_file(folder / "file.npz"));
}

TEST(Npz, DamagedFiles) {
  const TemporaryFolder folder;
  EXPECT_THAT(thrown([&] { read_npz(folder / "missing.npz"); }), IsError(Kind::kIo, "missing.npz: can't open it"));
  EXPECT_THAT(thrown([&] { read_npz(folder.path()); }), IsError(Kind::kIo, "directory"));
  EXPECT_THAT(thrown([&] { read_npz(folder.write("x.npz", "not an archive")); }),
              IsError(Kind::kInvalidArgument, "isn't a .npz file"));
  EXPECT_THAT(thrown([&] {
                write_npz(folder / "missing/x.npz", {{"a", Tensor::scalar(1.0f)}});
              }),
              IsError(Kind::kIo, "can't create it"));
  write_npz(folder / "good.npz", {{"a", Tensor::from<float>({2}, {1, 2})}}, true);
  const std::string good = test::read_file(folder / "good.npz");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(parse_npz(good.substr(0, n)), Error);
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string broken = good;
      broken[i] = static_cast<char>(broken[i] ^ (1 << bit));
      try {
        parse_npz(broken);
      } catch (const Error&) {
      }
    }
}

// Recorded by NumPy.
TEST(Npz, ReadsWhatNumPyWrote) {
  const auto folder = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_sdpa_op17";
  const NamedTensors io = read_npz(folder / "io_encoder_model_1.npz");
  EXPECT_EQ(io.at("in_input_ids").type(), DataType::kInt64);
  EXPECT_EQ(io.at("in_input_ids").dim(0), 3);
  EXPECT_EQ(io.at("out_last_hidden_state").type(), DataType::kFloat);
  EXPECT_EQ(io.at("out_last_hidden_state").dim(2), 48);
}

}  // namespace
}  // namespace attune
