// Reference-counted memory blocks, and the pool that recycles them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace attune {

class BufferPool;
namespace detail {
struct PoolState;
struct SmallBlocks;
}  // namespace detail

// A block of memory aligned to 64 bytes. Held through BufferRef only.
class Buffer {
 public:
  // Blocks up to this size (scalars, shapes) come from a free list of the thread, whatever pool is asked.
  static constexpr size_t kSmallBytes = 64;

  std::byte* data() const noexcept { return data_; }
  size_t capacity() const noexcept { return capacity_; }

 private:
  friend class BufferRef;
  friend class BufferPool;
  friend struct detail::PoolState;
  friend struct detail::SmallBlocks;
  Buffer() = default;
  ~Buffer() = default;
  void release() noexcept;

  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  std::atomic<int> references_{0};
  bool small_ = false;                 // one allocation with its header
  detail::PoolState* pool_ = nullptr;  // where it goes when the last reference ends; outlives its blocks
  std::shared_ptr<const void> owner_;  // memory that belongs to something else (a file mapping)
};

// A counted reference to a Buffer. Cheap to copy; thread-safe as shared_ptr is.
class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& other) noexcept : buffer_(other.buffer_) { retain(); }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() {
    // The only holder needs no atomic update: nobody else can come by a reference.
    if (buffer_ && (buffer_->references_.load(std::memory_order_acquire) == 1 ||
                    buffer_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1))
      buffer_->release();
  }

  // A fresh block from the heap. Throws Error(kLimit) when the memory can't be had.
  static BufferRef allocate(size_t bytes);
  // A view of memory that `owner` keeps alive; never written to.
  static BufferRef view(const void* data, size_t bytes, std::shared_ptr<const void> owner);

  explicit operator bool() const noexcept { return buffer_ != nullptr; }
  const Buffer* operator->() const noexcept { return buffer_; }
  const Buffer* get() const noexcept { return buffer_; }
  // True if nobody else holds the block and it may be written to.
  bool unique() const noexcept {
    return buffer_ && !buffer_->owner_ && buffer_->references_.load(std::memory_order_acquire) == 1;
  }

 private:
  friend class BufferPool;
  // The first reference.
  explicit BufferRef(Buffer* buffer) noexcept : buffer_(buffer) {
    buffer_->references_.store(1, std::memory_order_relaxed);
  }
  void retain() noexcept {
    if (buffer_) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer* buffer_ = nullptr;
};

// Recycles blocks by size class (four classes a doubling), so that a run whose sizes were seen
// before allocates nothing. Blocks may outlive the pool. Thread-safe. Small blocks are no part of it and of its
// figures.
class BufferPool {
 public:
  BufferPool();
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes` bytes, uninitialised. Throws Error(kLimit) when the memory can't be had.
  BufferRef acquire(size_t bytes);
  // Frees idle blocks until what is kept is at most `bytes`.
  void trim(size_t bytes);
  size_t idle_bytes() const;
  size_t peak_bytes() const;  // most bytes in use at once since the last reset
  void reset_peak();
  size_t heap_allocations() const;  // how often the pool had to ask the heap (for tests)

 private:
  detail::PoolState* state_;
};

}  // namespace attune
