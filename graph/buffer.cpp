#include "graph/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "graph/error.h"

namespace attune {
namespace {

constexpr size_t kAlignment = 64;

// Four size classes a doubling: at most 25 % more than asked for.
size_t size_class(size_t bytes) {
  if (bytes <= 256) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

std::byte* heap_allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (!p) throw Error(Error::Kind::kLimit, fmt::format("can't allocate {} bytes", bytes));
  return static_cast<std::byte*>(p);
}

}  // namespace

namespace detail {

struct PoolState {
  std::mutex mutex;
  std::map<size_t, std::vector<Buffer*>> idle;
  size_t idle_bytes = 0;
  size_t used_bytes = 0;
  size_t peak_bytes = 0;
  size_t heap_allocations = 0;
  bool closed = false;

  // Frees the largest idle block; there must be one. The lock is held.
  void free_largest() {
    while (idle.rbegin()->second.empty()) idle.erase(std::prev(idle.end()));
    auto it = std::prev(idle.end());
    Buffer* b = it->second.back();
    it->second.pop_back();
    idle_bytes -= b->capacity_;
    std::free(b->data_);
    delete b;
  }
};

}  // namespace detail

void Buffer::release() noexcept {
  if (pool_) {
    const auto pool = std::move(pool_);
    const std::scoped_lock lock(pool->mutex);
    pool->used_bytes -= capacity_;
    if (!pool->closed) {
      pool->idle[capacity_].push_back(this);
      pool->idle_bytes += capacity_;
      return;
    }
  }
  if (!owner_) std::free(data_);
  delete this;
}

BufferRef BufferRef::allocate(size_t bytes) {
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

BufferPool::BufferPool() : state_(std::make_shared<detail::PoolState>()) {}

BufferPool::~BufferPool() {
  const std::scoped_lock lock(state_->mutex);
  state_->closed = true;
  while (state_->idle_bytes > 0) state_->free_largest();
}

BufferRef BufferPool::acquire(size_t bytes) {
  const size_t size = size_class(bytes == 0 ? 1 : bytes);
  Buffer* b = nullptr;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->used_bytes += size;
    state_->peak_bytes = std::max(state_->peak_bytes, state_->used_bytes);
    if (auto it = state_->idle.find(size); it != state_->idle.end() && !it->second.empty()) {
      b = it->second.back();
      it->second.pop_back();
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
