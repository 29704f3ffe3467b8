#include "memory.h"

#include <csetjmp>
#include <csignal>
#include <cstring>

#include "support.h"

using namespace test;

namespace {

sigjmp_buf g_back;

// True when reading the byte faults, i.e. the address is not mapped.
bool faults(const void* address) {
  struct sigaction action = {};
  struct sigaction segv;
  struct sigaction bus;
  action.sa_handler = [](int) { siglongjmp(g_back, 1); };
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  const bool faulted = sigsetjmp(g_back, 1) != 0;
  if (!faulted) {
    const volatile char byte = *static_cast<const volatile char*>(address);
    (void)byte;
  }
  sigaction(SIGSEGV, &segv, nullptr);
  sigaction(SIGBUS, &bus, nullptr);
  return faulted;
}

}  // namespace

TEST(memory_allocations_are_found_and_usable, "") {
  DeviceMemory& memory = use_device().device().memory();
  void* address = new_memory(use_device().device(), 1000);
  std::memset(address, 7, 1000);
  CHECK_EQ(memory.find(static_cast<char*>(address) + 999).size, 1000u);
  CHECK_EQ(memory.find(static_cast<char*>(address) + 1000).size, 0u);
  CHECK_OK(memory.check(address, 1000, "test"));
  CHECK_CODE(memory.check(address, 1001, "test"), KernelException);
  CHECK_OK(memory.release(address));
  CHECK_CODE(memory.check(address, 1, "test"), KernelException);
}

TEST(memory_gaps_and_freed_memory_fault, "") {
  Device& device = use_device().device();
  constexpr size_t kBytes = 1 << 20;
  auto* first = static_cast<char*>(new_memory(device, kBytes));
  auto* second = static_cast<char*>(new_memory(device, kBytes));
  const size_t distance = first < second ? second - first : first - second;
  CHECK(distance >= kBytes + (1 << 20));
  CHECK(!faults(first + kBytes - 1));
  CHECK(faults(first + kBytes));
  CHECK(faults(first - 1));
  CHECK_OK(device.memory().release(second));
  CHECK(faults(second));
}

TEST(memory_alignment, "") {
  Device& device = use_device().device();
  CHECK_EQ(reinterpret_cast<uintptr_t>(new_memory(device, 3)) % 4096, 0u);
  CHECK_EQ(reinterpret_cast<uintptr_t>(new_memory(device, 3 << 20)) % (2 << 20), 0u);
}

TEST(memory_of_the_soc_runs_out, "SOFTNPU_HBM_BYTES=16777216") {
  DeviceMemory& memory = use_device().device().memory();
  size_t free_bytes = 0;
  size_t total = 0;
  memory.usage(&free_bytes, &total);
  CHECK_EQ(total, 16777216u);
  CHECK_EQ(free_bytes, total);
  void* first = nullptr;
  void* second = nullptr;
  CHECK_OK(memory.allocate(10 << 20, &first));
  const Error error = memory.allocate(7 << 20, &second);
  CHECK_CODE(error, OutOfMemory);
  CHECK_HAS(error.message(), "SOFTNPU_HBM_BYTES");
  memory.usage(&free_bytes, &total);
  CHECK_EQ(free_bytes, size_t{6} << 20);
  CHECK_OK(memory.release(first));
  CHECK_OK(memory.allocate(16 << 20, &second));
  CHECK_CODE(memory.allocate(16 << 20, &first), OutOfMemory);
}

TEST(memory_of_the_machine_runs_out, "SOFTNPU_HBM_BYTES=70368744177664") {
  DeviceMemory& memory = use_device().device().memory();
  void* out = nullptr;
  const Error error = memory.allocate(size_t{1} << 45, &out);
  CHECK_CODE(error, OutOfMemory);
  CHECK_HAS(error.message(), "machine");
  CHECK_CODE(memory.allocate(SIZE_MAX, &out), OutOfMemory);
  CHECK_CODE(memory.allocate(0, &out), InvalidParam);
}

TEST(memory_release_of_wild_pointers, "") {
  DeviceMemory& memory = use_device().device().memory();
  auto* address = static_cast<char*>(new_memory(use_device().device(), 4096));
  int local = 0;
  CHECK_CODE(memory.release(nullptr), InvalidFree);
  CHECK_CODE(memory.release(&local), InvalidFree);
  CHECK_CODE(memory.release(address + 16), InvalidFree);
  CHECK_OK(memory.release(address));
  CHECK_CODE(memory.release(address), InvalidFree);
}

TEST(memory_virtual_ranges, "") {
  DeviceMemory& memory = use_device().device().memory();
  constexpr size_t kBlock = 2 << 20;
  void* range = nullptr;
  void* block = nullptr;
  void* other = nullptr;
  CHECK_OK(memory.reserve_range(2 * kBlock, &range));
  CHECK_OK(memory.create_physical(kBlock, &block));
  CHECK_OK(memory.create_physical(kBlock, &other));
  auto* begin = static_cast<char*>(range);
  CHECK(faults(begin));
  CHECK_OK(memory.map(begin, kBlock, 0, block));
  CHECK_CODE(memory.map(begin, kBlock, 0, other), InvalidParam);
  CHECK_CODE(memory.map(begin + kBlock, 2 * kBlock, 0, other), InvalidParam);
  CHECK_CODE(memory.map(begin + kBlock, 0, 0, other), InvalidParam);
  CHECK_OK(memory.map(begin + kBlock, kBlock, 0, other));
  std::memset(begin, 1, 2 * kBlock);
  CHECK_OK(memory.check(begin + kBlock - 8, 16, "across two mappings"));
  CHECK_CODE(memory.destroy_physical(block), InvalidParam);
  CHECK_CODE(memory.release_range(begin), InvalidParam);
  CHECK_OK(memory.unmap(begin));
  CHECK(faults(begin));
  CHECK_CODE(memory.check(begin, 1, "unmapped"), KernelException);
  CHECK_OK(memory.map(begin, kBlock, 0, block));
  CHECK_EQ(*begin, 1);
  CHECK_OK(memory.unmap(begin));
  CHECK_OK(memory.unmap(begin + kBlock));
  CHECK_CODE(memory.unmap(begin), InvalidFree);
  CHECK_OK(memory.destroy_physical(block));
  CHECK_OK(memory.destroy_physical(other));
  CHECK_CODE(memory.destroy_physical(block), InvalidHandle);
  CHECK_OK(memory.release_range(begin));
  CHECK_CODE(memory.release_range(begin), InvalidFree);
}

TEST(memory_freed_under_a_queued_fill_is_an_error, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* address = new_memory(context.device(), 4096);
  Gate gate;
  gate.hold(stream);
  CHECK_OK(fill_async(stream, address, 4096, 1, 4096));
  CHECK_OK(context.device().memory().release(address));
  gate.open();
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  CHECK_HAS(error.message(), "aclrtMemsetAsync");
}

TEST(pinned_memory, "") {
  PinnedMemory& pinned = PinnedMemory::instance();
  void* owned = nullptr;
  char buffer[64];
  CHECK_OK(pinned.allocate(100, &owned));
  CHECK(pinned.contains(owned, 100));
  CHECK(!pinned.contains(owned, 101));
  CHECK_OK(pinned.register_range(buffer, sizeof buffer));
  CHECK_CODE(pinned.register_range(buffer, sizeof buffer), InvalidParam);
  CHECK(pinned.contains(buffer + 8, 56));
  CHECK_OK(pinned.unregister_range(buffer));
  CHECK(!pinned.contains(buffer, 1));
  CHECK_CODE(pinned.unregister_range(buffer), InvalidFree);
  CHECK_OK(pinned.release(owned));
  CHECK_CODE(pinned.release(owned), InvalidFree);
  CHECK_CODE(pinned.allocate(size_t{1} << 50, &owned), OutOfMemory);
}
