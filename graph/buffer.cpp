#include "graph/buffer.h"

#include <fmt/format.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "graph/error.h"

namespace attune {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLargest = size_t{1} << 62;

// Size classes, four a doubling: at most 25 % more than asked for. Class i holds (4 + i % 4) << (i / 4) units of 64
// bytes.
size_t size_class(size_t bytes) {
  const size_t units = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 4);
  const auto shift = static_cast<size_t>(std::bit_width(units)) - 3;
  const size_t quarters = (units + (size_t{1} << shift) - 1) >> shift;  // 4 to 8
  return 4 * shift + quarters - 4;
}
size_t class_bytes(size_t index) { return kAlignment * (4 + index % 4) << (index / 4); }

[[noreturn]] void fail_allocation(size_t bytes) {
  throw Error(Error::Kind::kLimit, fmt::format("can't allocate {} bytes", bytes));
}

// Blocks that fill huge pages lie on them, and ask for them: products step through rows that are pages apart.
constexpr size_t kHugePage = size_t{2} << 20;

std::byte* heap_allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = nullptr;
  if (rounded < bytes || ::posix_memalign(&p, bytes < kHugePage ? kAlignment : kHugePage, rounded) != 0)
    fail_allocation(bytes);
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) ::madvise(p, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: may fail
#endif
  return static_cast<std::byte*>(p);
}

}  // namespace

namespace detail {

struct PoolState {
  std::mutex mutex;
  std::vector<std::vector<Buffer*>> idle;  // by size class
  size_t idle_bytes = 0;
  size_t used_bytes = 0;
  size_t peak_bytes = 0;
  size_t heap_allocations = 0;
  size_t used_blocks = 0;
  bool closed = false;  // the pool is gone; the last block frees the state

  // Frees the largest idle block; there must be one. The lock is held.
  void free_largest() {
    while (idle.back().empty()) idle.pop_back();
    Buffer* b = idle.back().back();
    idle.back().pop_back();
    idle_bytes -= b->capacity_;
    std::free(b->data_);
    delete b;
  }

  // Takes back a block.
  void give(Buffer* b) {
    std::unique_lock lock(mutex);
    used_bytes -= b->capacity_;
    --used_blocks;
    if (!closed) {
      const size_t index = size_class(b->capacity_);
      if (index >= idle.size()) idle.resize(index + 1);
      idle[index].push_back(b);
      idle_bytes += b->capacity_;
      return;
    }
    const bool last = used_blocks == 0;
    lock.unlock();
    std::free(b->data_);
    delete b;
    if (last) delete this;
  }
};

// Idle small blocks of a thread. A block may end in another thread than it began in. Without a destructor, so that
// blocks of static lifetime may end after the list was closed.
struct SmallBlocks {
  std::array<Buffer*, 256> blocks{};
  size_t count = 0;
  bool closed = false;

  Buffer* acquire(size_t capacity);
  void give(Buffer* b) noexcept;
  void close() noexcept;
  void close_at_exit() noexcept;
  static void free(Buffer* b) noexcept {
    b->~Buffer();
    std::free(b);
  }
};

namespace {

thread_local constinit SmallBlocks small_blocks;

}  // namespace

Buffer* SmallBlocks::acquire(size_t capacity) {
  Buffer* b;
  if (count > 0) {
    b = blocks[--count];
  } else {
    constexpr size_t kHeader = (sizeof(Buffer) + kAlignment - 1) / kAlignment * kAlignment;
    std::byte* memory = heap_allocate(kHeader + Buffer::kSmallBytes);
    b = new (memory) Buffer;
    b->data_ = memory + kHeader;
    b->small_ = true;
  }
  b->capacity_ = capacity;
  return b;
}

void SmallBlocks::give(Buffer* b) noexcept {
  if (closed || count == blocks.size()) return free(b);
  if (count == 0) close_at_exit();
  blocks[count++] = b;
}

void SmallBlocks::close() noexcept {
  closed = true;
  while (count > 0) free(blocks[--count]);
}

void SmallBlocks::close_at_exit() noexcept {
  struct Closer {
    ~Closer() { small_blocks.close(); }
  };
  thread_local const Closer closer;
  (void)closer;
}

}  // namespace detail

void Buffer::release() noexcept {
  if (small_) return detail::small_blocks.give(this);
  if (pool_) return std::exchange(pool_, nullptr)->give(this);
  if (!owner_) std::free(data_);
  delete this;
}

BufferRef BufferRef::allocate(size_t bytes) {
  if (bytes <= Buffer::kSmallBytes) return BufferRef(detail::small_blocks.acquire(bytes));
  std::byte* data = heap_allocate(bytes);
  auto* b = new Buffer;
  b->data_ = data;
  b->capacity_ = bytes;
  return BufferRef(b);
}

BufferRef BufferRef::view(const void* data, size_t bytes, std::shared_ptr<const void> owner) {
  auto* b = new Buffer;
  b->data_ = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  b->capacity_ = bytes;
  b->owner_ = std::move(owner);
  return BufferRef(b);
}

BufferPool::BufferPool() : state_(new detail::PoolState) {}

BufferPool::~BufferPool() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  while (state_->idle_bytes > 0) state_->free_largest();
  const bool last = state_->used_blocks == 0;
  lock.unlock();
  if (last) delete state_;
}

BufferRef BufferPool::acquire(size_t bytes) {
  if (bytes <= Buffer::kSmallBytes) return BufferRef(detail::small_blocks.acquire(Buffer::kSmallBytes));
  if (bytes > kLargest) fail_allocation(bytes);
  const size_t index = size_class(bytes), size = class_bytes(index);
  Buffer* b = nullptr;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->used_bytes += size;
    ++state_->used_blocks;
    state_->peak_bytes = std::max(state_->peak_bytes, state_->used_bytes);
    if (index < state_->idle.size() && !state_->idle[index].empty()) {
      b = state_->idle[index].back();
      state_->idle[index].pop_back();
      state_->idle_bytes -= size;
    } else {
      ++state_->heap_allocations;
    }
  }
  if (!b) {
    std::byte* data;
    try {
      data = heap_allocate(size);
    } catch (...) {
      const std::scoped_lock lock(state_->mutex);
      state_->used_bytes -= size;
      --state_->used_blocks;
      throw;
    }
    b = new Buffer;
    b->data_ = data;
    b->capacity_ = size;
  }
  b->pool_ = state_;
  return BufferRef(b);
}

void BufferPool::trim(size_t bytes) {
  const std::scoped_lock lock(state_->mutex);
  while (state_->idle_bytes > bytes) state_->free_largest();
}

size_t BufferPool::idle_bytes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->idle_bytes;
}

size_t BufferPool::peak_bytes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->peak_bytes;
}

void BufferPool::reset_peak() {
  const std::scoped_lock lock(state_->mutex);
  state_->peak_bytes = state_->used_bytes;
}

size_t BufferPool::heap_allocations() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->heap_allocations;
}

}  // namespace attune
