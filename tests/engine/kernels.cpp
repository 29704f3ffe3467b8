// Kernels of the engine's tests, built into a shared object as a kernel compiler would.
#include <unistd.h>

#include <cstring>

#include "kernel/launch_abi.h"

namespace {

struct Args {
  int32_t* out;
  int32_t per_block;
};

Args args_of(const SnLaunch* launch) {
  Args args;
  std::memcpy(&args, launch->args, sizeof args);
  return args;
}

}  // namespace

extern "C" {

// out[block * per_block + i] = block, within the allocation or else a fault.
__attribute__((visibility("default"))) int32_t softnpu_kernel_number(const SnLaunch* launch,
                                                                     uint32_t block) {
  const Args args = args_of(launch);
  int32_t* from = args.out + static_cast<int64_t>(block) * args.per_block;
  int32_t* to = from + args.per_block;
  const SnGmRange range = launch->gm_range(launch, args.out);
  if (reinterpret_cast<uintptr_t>(from) < range.begin ||
      reinterpret_cast<uintptr_t>(to) > range.end) {
    launch->fault(launch, SN_FAULT_GM_RANGE, block, "AIV0", reinterpret_cast<uintptr_t>(to),
                  "number.py:3:1", "store of int32");
    return 1;
  }
  for (int32_t* at = from; at < to; ++at) *at = static_cast<int32_t>(block);
  return 0;
}

__attribute__((visibility("default"))) int32_t softnpu_kernel_slow(const SnLaunch* launch,
                                                                   uint32_t) {
  usleep(1'000);
  __atomic_fetch_add(args_of(launch).out, 1, __ATOMIC_RELAXED);
  return 0;
}

// Reports a fault and forgets to say so at its end.
__attribute__((visibility("default"))) int32_t softnpu_kernel_forgetful(const SnLaunch* launch,
                                                                        uint32_t block) {
  launch->fault(launch, SN_FAULT_UB_RANGE, block, "AIV1", launch->ub_bytes, "", "too large");
  return 0;
}

__attribute__((visibility("default"))) int32_t softnpu_kernel_code(const SnLaunch*,
                                                                   uint32_t block) {
  return block == 2 ? 42 : 0;
}
}
