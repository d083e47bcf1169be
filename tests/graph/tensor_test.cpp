#include "graph/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::IsError;
using test::thrown;
using Kind = Error::Kind;

// ---- 16-bit floating-point numbers, against their definition

// The value of a code with `exponent_bits` and `mantissa_bits`, in double.
double decode(unsigned code, int exponent_bits, int mantissa_bits) {
  const unsigned sign = code >> (exponent_bits + mantissa_bits);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1u));
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1u);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return sign ? -value : value;
}

template <class T>
void check_sixteen_bits(int exponent_bits, int mantissa_bits) {
  for (unsigned code = 0; code < 0x10000; ++code) {
    T number;
    number.bits = static_cast<uint16_t>(code);
    const double expected = decode(code, exponent_bits, mantissa_bits);
    const float found = static_cast<float>(number);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << code;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(found)))) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(found), expected) << code;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << code;
    ASSERT_EQ(T(found).bits, code);
  }
  // Between neighbours: the nearer one; halfway the even one.
  const unsigned largest = ((1u << exponent_bits) - 1u) << mantissa_bits;  // infinity
  for (unsigned code = 0; code + 1 < largest; ++code)
    for (const float sign : {1.0f, -1.0f}) {
      const unsigned sign_bit = sign < 0 ? 0x8000u : 0u;
      const double low = decode(code, exponent_bits, mantissa_bits),
                   high = decode(code + 1, exponent_bits, mantissa_bits);
      const auto middle = static_cast<float>((low + high) / 2);
      if (static_cast<double>(middle) == (low + high) / 2) {
        ASSERT_EQ(T(sign * middle).bits, sign_bit | (code % 2 == 0 ? code : code + 1)) << code;
      }
      const float below = std::nextafter(middle, 0.0f),
                  above = std::nextafter(middle, std::numeric_limits<float>::infinity());
      if (static_cast<double>(below) > low) {
        ASSERT_EQ(T(sign * below).bits, sign_bit | code) << code;
      }
      if (static_cast<double>(above) < high) {
        ASSERT_EQ(T(sign * above).bits, sign_bit | (code + 1)) << code;
      }
    }
}

TEST(DataType, Float16Exhaustively) { check_sixteen_bits<Float16>(5, 10); }
TEST(DataType, BFloat16Exhaustively) { check_sixteen_bits<BFloat16>(8, 7); }

TEST(DataType, SixteenBitOverflow) {
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(DataType, NamesAndSizes) {
  for (int i = 1; i <= static_cast<int>(DataType::kFloat6E3M2); ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(data_type_from_name(name(type)), type) << i;
    EXPECT_EQ(element_bits(type) == 0, type == DataType::kString) << i;
    EXPECT_FALSE(is_float(type) && is_integer(type)) << i;
  }
  EXPECT_EQ(data_type_from_name("nonsense"), DataType::kUndefined);
  EXPECT_EQ(storage_bytes(DataType::kInt4, 3), 2u);
  EXPECT_EQ(storage_bytes(DataType::kUInt2, 5), 2u);
  EXPECT_EQ(storage_bytes(DataType::kFloat6E2M3, 5), 4u);
  EXPECT_EQ(storage_bytes(DataType::kComplex128, 3), 48u);
}

// ---- Tensors

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor a = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(a.unique());
  const Tensor b = a;
  EXPECT_FALSE(a.unique());
  EXPECT_EQ(a.raw(), b.raw());
  const Tensor c = a.clone();
  EXPECT_NE(a.raw(), c.raw());
  EXPECT_EQ(c.to_double(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(c.raw()) % 64, 0u);
}

TEST(Tensor, WrongUseIsAnError) {
  const Tensor t = Tensor::from<float>({2}, {1, 2});
  EXPECT_THAT(thrown([&] { t.data<int64_t>(); }), IsError(Kind::kInternal, "a tensor of float read as int64"));
  EXPECT_THAT(thrown([&] { t.strings(); }), IsError(Kind::kInternal, "float read as string"));
  EXPECT_THAT(thrown([&] { t.to_int64(); }), IsError(Kind::kInvalidArgument, "expected integers, got float"));
  EXPECT_THAT(thrown([&] { t.reshaped({3}); }), IsError(Kind::kInvalidArgument, "shape (2) can't become (3)"));
  EXPECT_THAT(thrown([&] { Tensor::from<float>({3}, {1, 2}); }), IsError(Kind::kInternal, "for 2 values"));
  EXPECT_THAT(thrown([&] { Tensor::from_strings({3}, {"a"}); }), IsError(Kind::kInvalidArgument, "for 1 strings"));
  EXPECT_THAT(thrown([&] { Tensor::allocate(DataType::kFloat, {-1}); }),
              IsError(Kind::kInvalidArgument, "negative size"));
  EXPECT_THAT(thrown([&] {
                Tensor::allocate(DataType::kFloat, {int64_t{1} << 40, int64_t{1} << 40});
              }),
              IsError(Kind::kLimit, "too many elements"));
  EXPECT_THAT(thrown([&] { Tensor::from_buffer(DataType::kFloat, {4}, BufferRef::allocate(15)); }),
              IsError(Kind::kInvalidArgument, "needs 16 bytes, its memory has 15"));
  EXPECT_THAT(thrown([&] { Tensor::from_buffer(DataType::kFloat, {1}, BufferRef::allocate(16), 13); }),
              IsError(Kind::kInvalidArgument, "its memory has 3"));
}

TEST(Tensor, StridedViews) {
  // (2, 3) transposed to (3, 2).
  const Tensor t = Tensor::from<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor view = Tensor::strided_view(t.type(), {3, 2}, {1, 3}, t.buffer(), t.buffer()->data());
  EXPECT_FALSE(view.contiguous());
  EXPECT_EQ(view.to_int64(), (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_TRUE(view.to_contiguous().contiguous());
  EXPECT_EQ(view.to_contiguous().to_int64(), view.to_int64());
  EXPECT_THAT(thrown([&] { view.reshaped({6}); }), IsError(Kind::kInternal, "strided"));
  // A broadcast axis, rows with a gap, and strides that say nothing new.
  const Tensor rows = Tensor::strided_view(t.type(), {2, 2, 2}, {0, 3, 1}, t.buffer(), t.buffer()->data());
  EXPECT_EQ(rows.to_int64(), (std::vector<int64_t>{1, 2, 4, 5, 1, 2, 4, 5}));
  EXPECT_TRUE(Tensor::strided_view(t.type(), {1, 2, 3}, {99, 3, 1}, t.buffer(), t.buffer()->data()).contiguous());
}

TEST(Tensor, IntegersOfEveryWidth) {
  EXPECT_EQ(Tensor::from<int8_t>({1}, {-128}).to_int64(), std::vector<int64_t>{-128});
  EXPECT_EQ(Tensor::from<uint32_t>({1}, {0xffffffffu}).to_int64(), std::vector<int64_t>{0xffffffff});
  EXPECT_EQ(Tensor::from<bool>({2}, {true, false}).to_int64(), (std::vector<int64_t>{1, 0}));
  const auto packed = [](DataType type, int64_t count, std::initializer_list<int> bytes) {
    Tensor t = Tensor::allocate(type, {count});
    size_t i = 0;
    for (const int b : bytes) t.mutable_raw()[i++] = static_cast<std::byte>(b);
    return t.to_int64();
  };
  EXPECT_EQ(packed(DataType::kInt4, 3, {0x7f, 0x08}), (std::vector<int64_t>{-1, 7, -8}));
  EXPECT_EQ(packed(DataType::kUInt4, 3, {0x7f, 0x08}), (std::vector<int64_t>{15, 7, 8}));
  EXPECT_EQ(packed(DataType::kInt2, 5, {0xe4, 0x02}), (std::vector<int64_t>{0, 1, -2, -1, -2}));
  EXPECT_EQ(packed(DataType::kUInt2, 5, {0xe4, 0x02}), (std::vector<int64_t>{0, 1, 2, 3, 2}));
}

TEST(Datum, Kinds) {
  EXPECT_EQ(Datum().kind(), Datum::Kind::kNone);
  EXPECT_EQ(Datum(Tensor()).kind(), Datum::Kind::kNone);
  Datum list = Datum::sequence({Tensor::scalar(1.0f)});
  const Datum shared = list;
  list.mutable_elements().push_back(Tensor::scalar(2.0f));
  EXPECT_EQ(list.elements().size(), 2u);
  EXPECT_EQ(shared.elements().size(), 1u);
  EXPECT_TRUE(Datum::optional().elements().empty());
  EXPECT_EQ(std::as_const(shared).elements()[0].tensor().to_double(), std::vector<double>{1});
  EXPECT_THAT(thrown([&] { list.tensor(); }), IsError(Kind::kInvalidArgument, "expected a tensor"));
  EXPECT_THAT(thrown([&] { Datum(Tensor::scalar(1.0f)).elements(); }),
              IsError(Kind::kInvalidArgument, "expected a sequence"));
}

// ---- Shapes

TEST(Shape, CountsUpToTheLargestInteger) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(Shape({kLarge, 4}).count(), kLarge * 4);
  EXPECT_EQ(Shape({kLarge, kLarge}).count(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Shape({kLarge, kLarge, 0}).count(), 0);
}

TEST(Shape, Editing) {
  Shape s{2, 3};
  s.insert(1, 7);
  s.push_back(5);
  EXPECT_EQ(s, Shape({2, 7, 3, 5}));
  s.erase(0);
  EXPECT_EQ(s, Shape({7, 3, 5}));
  EXPECT_EQ(s.first(2), Shape({7, 3}));
  EXPECT_EQ(s.last(1), Shape({5}));
  EXPECT_EQ(s.count(), 105);
  EXPECT_EQ(s.count(1, 2), 3);
  s.resize(5);
  EXPECT_EQ(s.to_string(), "(7,3,5,1,1)");
  EXPECT_EQ(Shape({}).count(), 1);
  s.resize(12);
  EXPECT_THAT(thrown([&] { s.push_back(1); }), IsError(Kind::kLimit, "rank 13"));
}

TEST(Shape, AxesAndBroadcasting) {
  EXPECT_EQ(normalize_axis(-1, 3), 2u);
  EXPECT_EQ(normalize_axis(0, 3), 0u);
  EXPECT_THAT(thrown([] { normalize_axis(3, 3); }), IsError(Kind::kInvalidArgument, "axis 3 is outside [-3, 3)"));
  EXPECT_THAT(thrown([] { normalize_axis(-4, 3); }), IsError(Kind::kInvalidArgument, "axis -4"));
  EXPECT_THAT(thrown([] { normalize_axis(0, 0); }), IsError(Kind::kInvalidArgument, "axis 0"));
  EXPECT_EQ(broadcast({2, 1, 4}, {3, 1}), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast({}, {5}), Shape({5}));
  EXPECT_EQ(broadcast({0}, {1}), Shape({0}));
  EXPECT_THAT(thrown([] { broadcast({2, 3}, {2, 4}); }), IsError(Kind::kInvalidArgument, "(2,3) and (2,4)"));
  EXPECT_THAT(thrown([] { broadcast({0}, {2}); }), IsError(Kind::kInvalidArgument, "don't broadcast"));
}

// ---- Buffers

TEST(Buffer, ViewsKeepTheirOwnerAndAreNeverUnique) {
  auto owner = std::make_shared<std::vector<float>>(4, 1.0f);
  std::weak_ptr<std::vector<float>> alive = owner;
  BufferRef view = BufferRef::view(owner->data(), 16, owner);
  owner.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_FALSE(view.unique());
  view = {};
  EXPECT_TRUE(alive.expired());
}

TEST(Buffer, AnAllocationThatCannotBeHad) {
  EXPECT_THAT(thrown([] { BufferRef::allocate(std::numeric_limits<size_t>::max() - 3); }),
              IsError(Kind::kLimit, "can't allocate"));
  BufferPool pool;
  EXPECT_THAT(thrown([&] { pool.acquire(size_t{1} << 62); }), IsError(Kind::kLimit, "can't allocate"));
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(Buffer, SmallOnesAreRecycledByTheirThread) {
  BufferPool pool;
  const Buffer* first = pool.acquire(Buffer::kSmallBytes).get();
  EXPECT_EQ(pool.acquire(1).get(), first);
  const BufferRef exact = BufferRef::allocate(8);
  EXPECT_EQ(exact.get(), first);
  EXPECT_EQ(exact->capacity(), 8u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(exact->data()) % 64, 0u);
  EXPECT_EQ(pool.heap_allocations(), 0u);
  EXPECT_EQ(pool.peak_bytes(), 0u);
}

TEST(Buffer, SmallOnesMayEndInAnotherThread) {
  std::vector<BufferRef> kept;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      kept.push_back(BufferRef::allocate(64));
      std::memset(kept.back()->data(), i, 64);
    }
  }).join();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(kept[static_cast<size_t>(i)]->data()[63], static_cast<std::byte>(i));
  std::thread([taken = std::move(kept)]() mutable { taken.clear(); }).join();
}

TEST(BufferPool, RecyclesBySize) {
  BufferPool pool;
  const Buffer* first;
  {
    const BufferRef a = pool.acquire(1000);
    first = a.get();
    EXPECT_GE(a->capacity(), 1000u);
    EXPECT_LE(a->capacity(), 1250u);
    EXPECT_EQ(pool.idle_bytes(), 0u);
  }
  EXPECT_GT(pool.idle_bytes(), 0u);
  const BufferRef again = pool.acquire(990);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(pool.heap_allocations(), 1u);
  const BufferRef other = pool.acquire(1000);
  EXPECT_EQ(pool.heap_allocations(), 2u);
  EXPECT_EQ(pool.peak_bytes(), again->capacity() + other->capacity());
}

TEST(BufferPool, ClassesWasteAtMostAQuarter) {
  BufferPool pool;
  for (size_t bytes = 257; bytes < 100000; bytes += 97) {
    const BufferRef b = pool.acquire(bytes);
    EXPECT_GE(b->capacity(), bytes);
    EXPECT_LE(b->capacity(), bytes + bytes / 4);
  }
}

TEST(BufferPool, BlocksOutliveIt) {
  BufferRef kept;
  {
    BufferPool pool;
    kept = pool.acquire(100);
    const BufferRef idle = pool.acquire(200);
  }
  std::memset(kept->data(), 1, 100);
}

TEST(BufferPool, TrimAndPeak) {
  BufferPool pool;
  { const BufferRef a = pool.acquire(1 << 20), b = pool.acquire(1 << 10); }
  EXPECT_EQ(pool.idle_bytes(), (1u << 20) + (1u << 10));
  pool.trim(1 << 12);
  EXPECT_EQ(pool.idle_bytes(), 1u << 10);
  EXPECT_EQ(pool.peak_bytes(), (1u << 20) + (1u << 10));
  pool.reset_peak();
  EXPECT_EQ(pool.peak_bytes(), 0u);
}

TEST(BufferPool, FromSeveralThreads) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 2000; ++i) {
        const BufferRef a = pool.acquire(static_cast<size_t>(64 * (1 + (i + t) % 50)));
        std::memset(a->data(), t, a->capacity());
        const BufferRef shared = a;
        EXPECT_EQ(std::to_integer<int>(a->data()[a->capacity() - 1]), t);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_LE(pool.heap_allocations(), 4u * 50u);
}

TEST(Tensor, StringsThatMemoryCanNotHold) {
  EXPECT_THAT(thrown([] { Tensor::allocate(DataType::kString, {int64_t{1} << 58}); }),
              IsError(Kind::kLimit, "strings"));
#ifndef __SANITIZE_ADDRESS__  // which ends the process where operator new would throw
  EXPECT_THAT(thrown([] { Tensor::allocate(DataType::kString, {int64_t{1} << 54}); }),
              IsError(Kind::kLimit, "strings"));
#endif
}

}  // namespace
}  // namespace attune
