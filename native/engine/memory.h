// Device memory of one device, pinned host memory of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "error.h"

namespace softnpu {

struct Allocation {
  uintptr_t begin = 0;
  size_t size = 0;
  bool contains(uintptr_t address, size_t bytes) const {
    return address >= begin && address - begin <= size && bytes <= size - (address - begin);
  }
};

// Capacity is the SoC's; pages are committed when first touched. An allocation is refused when the
// SoC's size or what the machine can really give (free memory, cgroup) is exhausted. Allocations
// keep an unmapped gap between them, so that an access past the end is never a neighbour's data.
class DeviceMemory {
 public:
  DeviceMemory(int device, uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Error allocate(size_t bytes, void** out);
  Error release(void* address);
  void usage(size_t* free_bytes, size_t* total_bytes) const;
  // The allocation or mapping that holds `address`, or an empty one.
  Allocation find(const void* address) const;

  // Virtual ranges and physical blocks, for expandable segments.
  Error reserve_range(size_t bytes, void** out);
  Error release_range(void* address);
  Error create_physical(size_t bytes, void** handle);
  Error destroy_physical(void* handle);
  Error map(void* address, size_t bytes, size_t offset, void* handle);
  Error unmap(void* address);

  // Frees everything: the device is being reset.
  void clear();
  // Fails, naming `who`, unless all of [address, address + bytes) is live memory of this device.
  Error check(const void* address, size_t bytes, const std::string& who) const;
  // Grows whenever memory goes away: what was checked at the same generation is still valid.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  struct Physical;
  struct Mapping {
    size_t size;
    Physical* physical;
  };
  Error charge(size_t bytes, const char* what);  // mutex_ held

  const int device_;
  const uint64_t capacity_;
  std::atomic<uint64_t> generation_{1};
  mutable std::shared_mutex mutex_;  // guards all below
  uint64_t used_ = 0;
  std::map<uintptr_t, size_t> allocations_;  // begin -> size asked for
  std::map<uintptr_t, size_t> ranges_;       // reserved virtual ranges
  std::map<uintptr_t, Mapping> mappings_;
  std::map<Physical*, size_t> physicals_;
};

// Host memory that the device may copy from asynchronously.
class PinnedMemory {
 public:
  static PinnedMemory& instance();
  Error allocate(size_t bytes, void** out);
  Error release(void* address);
  Error register_range(void* address, size_t bytes);
  Error unregister_range(void* address);
  bool contains(const void* address, size_t bytes) const;
  Allocation find(const void* address) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, size_t> owned_;       // guarded by mutex_
  std::map<uintptr_t, size_t> registered_;  // guarded by mutex_
};

}  // namespace softnpu
