#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace softnpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
// Between allocations; wide, so that a wild index lands in no neighbour.
constexpr size_t kGap = size_t{1} << 20;

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

uint64_t read_number(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<uint64_t>::max();
}

uint64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return std::numeric_limits<uint64_t>::max();
}

// What the machine can still give: free memory, and the cgroup's rest where there is one.
uint64_t machine_available() {
  const uint64_t limit = std::min(read_number("/sys/fs/cgroup/memory.max"),
                                  read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  const uint64_t current = std::min(read_number("/sys/fs/cgroup/memory.current"),
                                    read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
  uint64_t rest = meminfo_available();
  if (limit != std::numeric_limits<uint64_t>::max() &&
      current != std::numeric_limits<uint64_t>::max()) {
    rest = std::min(rest, limit > current ? limit - current : 0);
  }
  return rest;
}

// All devices together may use this much: nine tenths of what was free at the first allocation, so
// that the kernel's OOM killer never has to step in.
uint64_t machine_budget() {
  static const uint64_t budget = machine_available() / 10 * 9;
  return budget;
}

std::atomic<uint64_t> g_used_all{0};

std::string hex(uintptr_t address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(address));
  return text;
}

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Allocation find_in(const std::map<uintptr_t, size_t>& ranges, uintptr_t address) {
  auto it = ranges.upper_bound(address);
  if (it == ranges.begin()) return {};
  --it;
  return address - it->first < it->second ? Allocation{it->first, it->second} : Allocation{};
}

Error map_failed(const char* what, size_t bytes) {
  return {Code::OutOfMemory, std::string(what) + " of " + std::to_string(bytes) +
                                 " bytes failed: the machine has no address space or memory left."};
}

}  // namespace

struct DeviceMemory::Physical {
  int file;
  size_t size;
  int mapped;
};

DeviceMemory::DeviceMemory(int device, uint64_t capacity) : device_(device), capacity_(capacity) {}
DeviceMemory::~DeviceMemory() { clear(); }

Error DeviceMemory::charge(size_t bytes, const char* what) {
  const std::string head = std::string(what) + " of " + std::to_string(bytes) +
                           " bytes on device " + std::to_string(device_) + " failed: ";
  if (bytes > capacity_ || used_ > capacity_ - bytes) {
    return {Code::OutOfMemory, head + mib(used_) + " of " + mib(capacity_) +
                                   " are in use. Free memory, or set SOFTNPU_HBM_BYTES or another "
                                   "SoC for a larger device."};
  }
  const uint64_t budget = machine_budget();
  const uint64_t all = g_used_all.load();
  if (bytes > budget || all > budget - bytes || bytes > machine_available()) {
    return {Code::OutOfMemory, head + "this machine can give " + mib(budget) +
                                   " to all devices, of which " + mib(all) +
                                   " are in use (the SoC would have " + mib(capacity_) + ")."};
  }
  used_ += bytes;
  g_used_all += bytes;
  return Error::ok();
}

Error DeviceMemory::allocate(size_t bytes, void** out) {
  if (bytes == 0) return {Code::InvalidParam, "An allocation of 0 bytes was asked for."};
  if (bytes > std::numeric_limits<size_t>::max() / 2) {
    return {Code::OutOfMemory,
            "An allocation of " + std::to_string(bytes) + " bytes is too large."};
  }
  std::unique_lock lock(mutex_);
  if (Error error = charge(bytes, "An allocation"); error.failed()) return error;
  const size_t align = bytes >= kHugePage ? kHugePage : kPage;
  const size_t inner = round_up(bytes, kPage);
  const size_t outer = inner + 2 * kGap + align;
  void* range = mmap(nullptr, outer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(range) + kGap, align);
  if (range == MAP_FAILED ||
      mprotect(reinterpret_cast<void*>(begin), inner, PROT_READ | PROT_WRITE) != 0) {
    used_ -= bytes;
    g_used_all -= bytes;
    if (range != MAP_FAILED) munmap(range, outer);
    return map_failed("An allocation", bytes);
  }
  // Only one gap on each side is kept; what alignment left over goes back.
  const uintptr_t low = reinterpret_cast<uintptr_t>(range);
  if (begin - kGap > low) munmap(range, begin - kGap - low);
  const uintptr_t high = begin + inner + kGap;
  if (low + outer > high) munmap(reinterpret_cast<void*>(high), low + outer - high);
  allocations_[begin] = bytes;
  *out = reinterpret_cast<void*>(begin);
  return Error::ok();
}

Error DeviceMemory::release(void* address) {
  std::unique_lock lock(mutex_);
  const auto it = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (it == allocations_.end()) {
    return {Code::InvalidFree, hex(reinterpret_cast<uintptr_t>(address)) +
                                   " is not the start of a live allocation of device " +
                                   std::to_string(device_) + "."};
  }
  munmap(reinterpret_cast<void*>(it->first - kGap), round_up(it->second, kPage) + 2 * kGap);
  used_ -= it->second;
  g_used_all -= it->second;
  allocations_.erase(it);
  ++generation_;
  return Error::ok();
}

void DeviceMemory::usage(size_t* free_bytes, size_t* total_bytes) const {
  std::shared_lock lock(mutex_);
  const uint64_t budget = machine_budget();
  const uint64_t all = g_used_all.load();
  *total_bytes = capacity_;
  *free_bytes = std::min<uint64_t>(capacity_ - used_, budget > all ? budget - all : 0);
}

Allocation DeviceMemory::find(const void* address) const {
  std::shared_lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (Allocation found = find_in(allocations_, at); found.size) return found;
  auto it = mappings_.upper_bound(at);
  if (it == mappings_.begin()) return {};
  --it;
  if (at - it->first >= it->second.size) return {};
  // Neighbouring mappings form one segment for whoever indexes across them.
  auto first = it;
  while (first != mappings_.begin() &&
         std::prev(first)->first + std::prev(first)->second.size == first->first) {
    --first;
  }
  auto last = it;
  while (std::next(last) != mappings_.end() &&
         last->first + last->second.size == std::next(last)->first) {
    ++last;
  }
  return {first->first, last->first + last->second.size - first->first};
}

Error DeviceMemory::check(const void* address, size_t bytes, const std::string& who) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Allocation found = find(address);
  if (bytes == 0 || (found.size && found.contains(at, bytes))) return Error::ok();
  const std::string head = who + ": " + std::to_string(bytes) + " bytes at " + hex(at);
  if (!found.size) {
    return {Code::KernelException, head + " are not memory of device " + std::to_string(device_) +
                                       ". It was never allocated there, or was freed."};
  }
  return {Code::KernelException, head + " reach past the end of the allocation " +
                                     hex(found.begin) + " + " + std::to_string(found.size) + "."};
}

Error DeviceMemory::reserve_range(size_t bytes, void** out) {
  if (bytes == 0) return {Code::InvalidParam, "A virtual range of 0 bytes was asked for."};
  const size_t size = round_up(bytes, kHugePage);
  void* range = mmap(nullptr, size + kHugePage + 2 * kGap, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return map_failed("A virtual range", bytes);
  const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(range) + kGap, kHugePage);
  const uintptr_t low = reinterpret_cast<uintptr_t>(range);
  munmap(range, begin - low);
  const uintptr_t high = begin + size;
  munmap(reinterpret_cast<void*>(high), low + size + kHugePage + 2 * kGap - high);
  std::unique_lock lock(mutex_);
  ranges_[begin] = size;
  *out = reinterpret_cast<void*>(begin);
  return Error::ok();
}

Error DeviceMemory::release_range(void* address) {
  std::unique_lock lock(mutex_);
  const auto it = ranges_.find(reinterpret_cast<uintptr_t>(address));
  if (it == ranges_.end()) {
    return {Code::InvalidFree, hex(reinterpret_cast<uintptr_t>(address)) +
                                   " is not the start of a reserved virtual range."};
  }
  const auto mapped = mappings_.lower_bound(it->first);
  if (mapped != mappings_.end() && mapped->first < it->first + it->second) {
    return {Code::InvalidParam, "The virtual range " + hex(it->first) +
                                    " still has memory mapped at " + hex(mapped->first) +
                                    ". Unmap it first."};
  }
  munmap(reinterpret_cast<void*>(it->first), it->second);
  ranges_.erase(it);
  return Error::ok();
}

Error DeviceMemory::create_physical(size_t bytes, void** handle) {
  if (bytes == 0) return {Code::InvalidParam, "A physical block of 0 bytes was asked for."};
  std::unique_lock lock(mutex_);
  if (Error error = charge(bytes, "A physical block"); error.failed()) return error;
  const int file = memfd_create("softnpu-hbm", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(round_up(bytes, kPage))) != 0) {
    if (file >= 0) close(file);
    used_ -= bytes;
    g_used_all -= bytes;
    return map_failed("A physical block", bytes);
  }
  auto* block = new Physical{file, bytes, 0};
  physicals_[block] = bytes;
  *handle = block;
  return Error::ok();
}

Error DeviceMemory::destroy_physical(void* handle) {
  std::unique_lock lock(mutex_);
  auto* block = static_cast<Physical*>(handle);
  const auto it = physicals_.find(block);
  if (it == physicals_.end()) {
    return {Code::InvalidHandle, "The handle is not a live block of physical memory."};
  }
  if (block->mapped) {
    return {Code::InvalidParam, "The block of physical memory is still mapped. Unmap it first."};
  }
  used_ -= block->size;
  g_used_all -= block->size;
  close(block->file);
  delete block;
  physicals_.erase(it);
  return Error::ok();
}

Error DeviceMemory::map(void* address, size_t bytes, size_t offset, void* handle) {
  std::unique_lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  auto* block = static_cast<Physical*>(handle);
  if (!physicals_.count(block)) {
    return {Code::InvalidHandle, "The handle is not a live block of physical memory."};
  }
  const Allocation range = find_in(ranges_, begin);
  const size_t length = round_up(bytes, kPage);
  if (!bytes || !range.size || !range.contains(begin, length) || begin % kPage || offset % kPage ||
      offset > block->size || bytes > round_up(block->size, kPage) - offset) {
    return {Code::InvalidParam, "Mapping " + std::to_string(bytes) + " bytes at " + hex(begin) +
                                    " does not fit the reserved range or the block."};
  }
  const auto next = mappings_.lower_bound(begin);
  const bool overlaps_next = next != mappings_.end() && next->first < begin + length;
  const bool overlaps_previous =
      next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.size > begin;
  if (overlaps_next || overlaps_previous) {
    return {Code::InvalidParam, hex(begin) + " is mapped already. Unmap it first."};
  }
  if (mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block->file,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return map_failed("A mapping", bytes);
  }
  ++block->mapped;
  mappings_[begin] = {length, block};
  return Error::ok();
}

Error DeviceMemory::unmap(void* address) {
  std::unique_lock lock(mutex_);
  const auto it = mappings_.find(reinterpret_cast<uintptr_t>(address));
  if (it == mappings_.end()) {
    return {Code::InvalidFree,
            hex(reinterpret_cast<uintptr_t>(address)) + " is not the start of a mapping."};
  }
  mmap(address, it->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
       -1, 0);
  --it->second.physical->mapped;
  mappings_.erase(it);
  ++generation_;
  return Error::ok();
}

void DeviceMemory::clear() {
  std::unique_lock lock(mutex_);
  for (const auto& [begin, size] : allocations_) {
    munmap(reinterpret_cast<void*>(begin - kGap), round_up(size, kPage) + 2 * kGap);
  }
  for (const auto& [begin, size] : ranges_) munmap(reinterpret_cast<void*>(begin), size);
  for (const auto& [block, size] : physicals_) {
    close(block->file);
    delete block;
  }
  g_used_all -= used_;
  used_ = 0;
  ++generation_;
  allocations_.clear();
  ranges_.clear();
  mappings_.clear();
  physicals_.clear();
}

PinnedMemory& PinnedMemory::instance() {
  static auto* pinned = new PinnedMemory;
  return *pinned;
}

Error PinnedMemory::allocate(size_t bytes, void** out) {
  if (bytes == 0) return {Code::InvalidParam, "Pinned memory of 0 bytes was asked for."};
  void* address =
      bytes <= machine_available() ? std::aligned_alloc(kPage, round_up(bytes, kPage)) : nullptr;
  if (!address) return map_failed("Pinned memory", bytes);
  std::unique_lock lock(mutex_);
  owned_[reinterpret_cast<uintptr_t>(address)] = bytes;
  *out = address;
  return Error::ok();
}

Error PinnedMemory::release(void* address) {
  std::unique_lock lock(mutex_);
  if (!owned_.erase(reinterpret_cast<uintptr_t>(address))) {
    return {Code::InvalidFree,
            hex(reinterpret_cast<uintptr_t>(address)) + " is not the start of pinned memory."};
  }
  std::free(address);
  return Error::ok();
}

Error PinnedMemory::register_range(void* address, size_t bytes) {
  if (!address || !bytes) return {Code::InvalidParam, "Registering needs an address and a size."};
  std::unique_lock lock(mutex_);
  if (!registered_.emplace(reinterpret_cast<uintptr_t>(address), bytes).second) {
    return {Code::InvalidParam,
            hex(reinterpret_cast<uintptr_t>(address)) + " is registered already."};
  }
  return Error::ok();
}

Error PinnedMemory::unregister_range(void* address) {
  std::unique_lock lock(mutex_);
  if (!registered_.erase(reinterpret_cast<uintptr_t>(address))) {
    return {Code::InvalidFree, hex(reinterpret_cast<uintptr_t>(address)) + " is not registered."};
  }
  return Error::ok();
}

Allocation PinnedMemory::find(const void* address) const {
  std::shared_lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (Allocation found = find_in(owned_, at); found.size) return found;
  return find_in(registered_, at);
}

bool PinnedMemory::contains(const void* address, size_t bytes) const {
  const Allocation found = find(address);
  return found.size && found.contains(reinterpret_cast<uintptr_t>(address), bytes);
}

}  // namespace softnpu
