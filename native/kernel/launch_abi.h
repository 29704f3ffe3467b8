// The contract between the engine and a compiled kernel: a shared object that exports, for every
// kernel NAME, `extern "C" int32_t softnpu_kernel_NAME(const SnLaunch*, uint32_t block)`.
// The engine calls it once per block, possibly from several threads at once; 0 is success, anything
// else means that SnLaunch::fault has been called. C only: the object may come from any compiler.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SN_LAUNCH_ABI 1

enum SnFault {
  SN_FAULT_GM_RANGE = 1,   /* global memory outside an allocation */
  SN_FAULT_UB_RANGE = 2,   /* on-chip buffer overflow or access outside it */
  SN_FAULT_FLAG = 3,       /* unmatched flag: the kernel can't go on */
  SN_FAULT_ARITHMETIC = 4, /* e.g. integer division by zero */
  SN_FAULT_OTHER = 5
};

typedef struct SnGmRange { /* one device allocation */
  uintptr_t begin;
  uintptr_t end; /* one past the last byte */
} SnGmRange;

typedef struct SnLaunch {
  uint32_t abi; /* SN_LAUNCH_ABI */
  uint32_t num_blocks;
  const void* args; /* the bytes given to the launch, copied at the call */
  size_t args_size;
  uint64_t ub_bytes; /* per vector core, of the SoC in use */
  uint64_t l1_bytes;
  uint64_t l0a_bytes;
  uint64_t l0b_bytes;
  uint64_t l0c_bytes;
  /* The allocation that holds `address`, or {0, 0}. Cheap; a kernel asks once per pointer. */
  SnGmRange (*gm_range)(const struct SnLaunch*, const void* address);
  /* Reports a fault; the first one of a launch counts. `core` is "AIC", "AIV0" or "AIV1";
     `where` is "file.py:12:5" of the kernel's source or "". Returns, so the kernel must stop
     itself. */
  void (*fault)(const struct SnLaunch*, int32_t kind, uint32_t block, const char* core,
                uint64_t address, const char* where, const char* what);
  void* engine; /* the engine's own */
} SnLaunch;

typedef int32_t (*SnKernelFn)(const SnLaunch*, uint32_t block);

#ifdef __cplusplus
}
#endif
