#include <cstring>
#include <numeric>
#include <vector>

#include "memory.h"
#include "support.h"

using namespace test;

namespace {

constexpr size_t kBytes = 256;

std::vector<char> numbers(size_t count) {
  std::vector<char> out(count);
  std::iota(out.begin(), out.end(), 1);
  return out;
}

}  // namespace

TEST(copy_there_and_back, "") {
  Context& context = use_device();
  void* device = new_memory(context.device(), kBytes);
  void* other = new_memory(use_device(1).device(), kBytes);
  const auto from = numbers(kBytes);
  std::vector<char> to(kBytes);
  CHECK_OK(copy(context, device, kBytes, from.data(), kBytes, CopyKind::HostToDevice));
  CHECK_OK(copy(context, other, kBytes, device, kBytes, CopyKind::DeviceToDevice));
  CHECK_OK(copy(context, to.data(), kBytes, other, kBytes, CopyKind::Default));
  CHECK(to == from);
  CHECK_OK(copy(context, nullptr, 0, nullptr, 0, CopyKind::HostToDevice));
}

TEST(copy_out_of_bounds_is_refused, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  auto* device = static_cast<char*>(new_memory(context.device(), kBytes));
  std::vector<char> host(2 * kBytes);
  const Error small =
      copy(context, device, kBytes, host.data(), kBytes + 1, CopyKind::HostToDevice);
  CHECK_CODE(small, InvalidParam);
  CHECK_HAS(small.message(), "does not fit");
  const Error past =
      copy(context, device + 8, 2 * kBytes, host.data(), kBytes, CopyKind::HostToDevice);
  CHECK_CODE(past, InvalidParam);
  CHECK_HAS(past.message(), "past the end");
  const Error host_address = copy(context, host.data(), 8, host.data(), 8, CopyKind::HostToDevice);
  CHECK_CODE(host_address, InvalidParam);
  CHECK_HAS(host_address.message(), "not device memory");
  CHECK_CODE(
      copy_async(stream, host.data(), kBytes, device + 1, kBytes, CopyKind::DeviceToHost, "c"),
      InvalidParam);
  CHECK_CODE(copy(context, device, 8, nullptr, 8, CopyKind::HostToDevice), InvalidParam);
  CHECK_CODE(fill(context, device, kBytes, 0, kBytes + 1), InvalidParam);
  CHECK_CODE(fill(context, device, 2 * kBytes, 0, kBytes + 1), InvalidParam);
  CHECK_CODE(fill_async(stream, host.data(), kBytes, 0, kBytes), InvalidParam);
  CHECK_OK(context.synchronize());  // refused calls are not device errors
}

TEST(copy_async_is_in_stream_order, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* device = new_memory(context.device(), kBytes);
  void* second = new_memory(context.device(), kBytes);
  void* pinned = nullptr;
  CHECK_OK(PinnedMemory::instance().allocate(kBytes, &pinned));
  std::memset(pinned, 1, kBytes);
  Gate gate;
  gate.hold(stream);
  CHECK_OK(copy_async(stream, device, kBytes, pinned, kBytes, CopyKind::HostToDevice, "c"));
  CHECK_OK(copy_async(stream, second, kBytes, device, kBytes, CopyKind::DeviceToDevice, "c"));
  CHECK_OK(fill_async(stream, device, kBytes, 9, kBytes));
  std::memset(pinned, 2, kBytes);  // pinned memory is read when the copy runs
  gate.open();
  CHECK_OK(stream.synchronize());
  CHECK_EQ(static_cast<char*>(second)[7], 2);
  CHECK_EQ(static_cast<char*>(device)[7], 9);
}

TEST(copy_async_reads_pageable_memory_at_the_call, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  auto* device = static_cast<char*>(new_memory(context.device(), kBytes));
  std::vector<char> host(kBytes, 1);
  Gate gate;
  gate.hold(stream);
  CHECK_OK(copy_async(stream, device, kBytes, host.data(), kBytes, CopyKind::HostToDevice, "c"));
  host.assign(kBytes, 2);
  gate.open();
  CHECK_OK(stream.synchronize());
  CHECK_EQ(device[0], 1);
}

TEST(copy_async_of_much_pageable_memory_is_in_order, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  constexpr size_t kMuch = 3 << 20;
  auto* device = static_cast<char*>(new_memory(context.device(), kMuch));
  std::vector<char> host(kMuch, 1);
  CHECK_OK(fill_async(stream, device, kMuch, 5, kMuch));
  CHECK_OK(copy_async(stream, device, kMuch, host.data(), kMuch, CopyKind::HostToDevice, "c"));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(device[kMuch - 1], 1);
}

TEST(copy_async_to_pageable_memory_is_done_at_return, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* device = new_memory(context.device(), kBytes);
  CHECK_OK(fill_async(stream, device, kBytes, 4, kBytes));
  std::vector<char> host(kBytes);
  CHECK_OK(copy_async(stream, host.data(), kBytes, device, kBytes, CopyKind::DeviceToHost, "c"));
  CHECK_EQ(host[kBytes - 1], 4);
}

TEST(copy_2d_keeps_what_lies_between_the_rows, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  auto* device = static_cast<char*>(new_memory(context.device(), 64));
  CHECK_OK(fill(context, device, 64, 0, 64));
  const auto from = numbers(64);
  CHECK_OK(copy_2d(context, device, 16, from.data(), 8, 4, 4, CopyKind::HostToDevice));
  CHECK_EQ(device[16], 9);
  CHECK_EQ(device[4], 0);
  std::vector<char> to(16);
  CHECK_OK(copy_2d_async(stream, to.data(), 4, device, 16, 4, 4, CopyKind::DeviceToHost));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(to[15], from[27]);
  CHECK_CODE(copy_2d(context, device, 2, from.data(), 8, 4, 4, CopyKind::HostToDevice),
             InvalidParam);
  CHECK_CODE(copy_2d(context, device, 16, from.data(), 8, 4, 5, CopyKind::HostToDevice),
             InvalidParam);
}

TEST(copy_after_a_device_error_names_it, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* device = new_memory(context.device(), kBytes);
  std::vector<char> host(kBytes, 3);
  fail_on(stream, "division by zero");
  CHECK_CODE(stream.synchronize(), OperatorFailed);
  const Error error = copy(context, host.data(), kBytes, device, kBytes, CopyKind::DeviceToHost);
  CHECK_CODE(error, OperatorFailed);
  CHECK_HAS(error.message(), "division by zero");
  CHECK_EQ(host[0], 3);
  CHECK_CODE(fill(context, device, kBytes, 0, kBytes), OperatorFailed);
}
