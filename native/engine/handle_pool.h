// Objects behind handles that callers pass back to us. Checking a handle must be lock-free (the
// capture status is asked by every allocation and operator) and must survive a stale or wild
// pointer, so the objects live in one reserved range that is never given back.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace softnpu {

template <typename T>
class HandlePool {
 public:
  explicit HandlePool(size_t capacity)
      : capacity_(capacity), live_(new std::atomic<bool>[capacity]()) {
    void* range = mmap(nullptr, capacity * sizeof(Slot), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    slots_ = range == MAP_FAILED ? nullptr : static_cast<Slot*>(range);
  }

  // nullptr when the pool is full.
  template <typename... Args>
  T* create(Args&&... args) {
    std::lock_guard lock(mutex_);
    size_t index = next_;
    if (!free_.empty()) {
      index = free_.front();
      free_.pop_front();
    } else if (slots_ && next_ < capacity_) {
      ++next_;
    } else {
      return nullptr;
    }
    T* object = new (&slots_[index]) T(std::forward<Args>(args)...);
    live_[index].store(true, std::memory_order_release);
    return object;
  }

  void destroy(T* object) {
    const size_t index = static_cast<size_t>(reinterpret_cast<Slot*>(object) - slots_);
    live_[index].store(false, std::memory_order_release);
    object->~T();
    std::lock_guard lock(mutex_);
    free_.push_back(index);
  }

  T* find(const void* handle) const {
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(slots_);
    const size_t index = offset / sizeof(Slot);
    if (offset % sizeof(Slot) != 0 || index >= capacity_) return nullptr;
    if (!live_[index].load(std::memory_order_acquire)) return nullptr;
    return reinterpret_cast<T*>(&slots_[index]);
  }

 private:
  struct Slot {
    alignas(64) unsigned char bytes[(sizeof(T) + 63) / 64 * 64];
  };
  const size_t capacity_;
  Slot* slots_ = nullptr;
  std::unique_ptr<std::atomic<bool>[]> live_;
  std::mutex mutex_;         // guards the below
  std::deque<size_t> free_;  // the longest free first, so that a stale handle stays stale for long
  size_t next_ = 0;
};

}  // namespace softnpu
