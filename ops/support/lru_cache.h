// A bounded cache of things that depend on shapes (oneDNN primitives).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace attune {

// Keeps the `capacity` values used last. Thread-safe; a value stays valid while somebody holds it.
// Keys are compared one by one: meant for some dozen entries.
template <class Key, class Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity = 32) : capacity_(capacity) {}

  // The value of `key`; `make()` gives it (a shared_ptr, may be null) if it isn't there.
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      for (auto i = entries_.begin(); i != entries_.end(); ++i) {
        if (!(i->first == key)) continue;
        entries_.splice(entries_.begin(), entries_, i);
        return i->second;
      }
    }
    std::shared_ptr<const Value> value = make();
    const std::lock_guard lock(mutex_);
    entries_.emplace_front(key, value);
    if (entries_.size() > capacity_) entries_.pop_back();
    return value;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  // The value used last; null if there is none.
  std::shared_ptr<const Value> newest() const {
    const std::lock_guard lock(mutex_);
    return entries_.empty() ? nullptr : entries_.front().second;
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<const Value>>> entries_;
};

}  // namespace attune
