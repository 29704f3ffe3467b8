// What the engine does for a compiled kernel, for one thread: calls every block, keeps the first
// fault. Addresses outside the given ranges belong to allocations without end.
#include <cstdio>
#include <cstring>

#include "launch_abi.h"

namespace {

struct State {
  const uintptr_t* ranges;  // begin and end, in pairs
  size_t count;
  char* fault;
  size_t fault_size;
};

SnGmRange gm_range(const SnLaunch* launch, const void* address) {
  const auto& state = *static_cast<State*>(launch->engine);
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < state.count; ++i) {
    if (at >= state.ranges[2 * i] && at < state.ranges[2 * i + 1]) {
      return {state.ranges[2 * i], state.ranges[2 * i + 1]};
    }
  }
  return {at, UINTPTR_MAX};
}

void fault(const SnLaunch* launch, int32_t kind, uint32_t block, const char* core, uint64_t address,
           const char* where, const char* what) {
  const auto& state = *static_cast<State*>(launch->engine);
  if (state.fault[0]) return;
  std::snprintf(state.fault, state.fault_size, "kind %d block %u core %s address 0x%llx at %s: %s",
                kind, block, core, static_cast<unsigned long long>(address), where, what);
}

}  // namespace

extern "C" int run_kernel(void* entry, uint32_t blocks, const void* args, size_t args_size,
                          const uintptr_t* ranges, size_t count, uint64_t ub_bytes, char* text,
                          size_t text_size) {
  State state{ranges, count, text, text_size};
  text[0] = 0;
  const SnLaunch launch{SN_LAUNCH_ABI, blocks, args,   args_size, ub_bytes, 524032,
                        65536,         65536,  131072, gm_range,  fault,    &state};
  for (uint32_t block = 0; block < blocks; ++block) {
    if (const int32_t code = reinterpret_cast<SnKernelFn>(entry)(&launch, block)) return code;
  }
  return 0;
}
