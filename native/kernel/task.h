// One block of a launch as its kernel sees it: faults, checked indices, global memory.
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "launch_abi.h"
#include "numeric.h"

#define SN_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
// The loop's iterations are independent: its operands are the same run or do not overlap.
#define SN_IVDEP _Pragma("GCC ivdep")

namespace sn {

struct Task {
  const SnLaunch* launch;
  uint32_t block;
  int vid;
  const char* const* places;  // "file.py:12:5" by number
  bool failed = false;
  float deq_scale = 1.0f;  // of conversions from int32 to float16

  // Reports a fault at place number `where`; the kernel returns at its next check.
  __attribute__((cold, noinline, format(printf, 5, 6))) bool fail(int kind, uint64_t address,
                                                                  int where, const char* text,
                                                                  ...) {
    if (failed) return false;
    failed = true;
    char message[320];
    va_list args;
    va_start(args, text);
    vsnprintf(message, sizeof(message), text, args);
    va_end(args);
    launch->fault(launch, kind, block, vid == 0 ? "AIV0" : "AIV1", address, places[where], message);
    return false;
  }

  // `index` if it is inside a dimension of `extent`, else 0 after reporting the fault.
  int64_t index(int64_t index, int64_t extent, const char* buffer, int axis, int where) {
    if (SN_UNLIKELY(index < 0 || index >= extent)) {
      fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(index), where,
           "index %lld of %s is outside dimension %d of %lld", static_cast<long long>(index),
           buffer, axis, static_cast<long long>(extent));
      return 0;
    }
    return index;
  }

  // Whether [low, low + extent) is inside a dimension of `size`.
  bool inside(int64_t low, int64_t extent, int64_t size, const char* buffer, int axis, int where) {
    if (SN_UNLIKELY(low < 0 || extent < 0 || low + extent > size)) {
      return fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(low), where,
                  "slice %lld:%lld of %s is outside dimension %d of %lld",
                  static_cast<long long>(low), static_cast<long long>(low + extent), buffer, axis,
                  static_cast<long long>(size));
    }
    return true;
  }

  // Whether a count operand fits both its operands.
  bool fits(int64_t count, int64_t room, int where) {
    if (SN_UNLIKELY(count < 0 || count > room)) {
      return fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(count), where,
                  "%lld elements, the operand has %lld", static_cast<long long>(count),
                  static_cast<long long>(room));
    }
    return true;
  }

  // Vector instructions read ahead of what they write: a destination that begins inside a source
  // would be read back half done.
  bool disjoint(const void* dst, const void* src, int64_t bytes, int where) {
    const auto to = reinterpret_cast<uintptr_t>(dst), from = reinterpret_cast<uintptr_t>(src);
    if (SN_UNLIKELY(to > from && to < from + static_cast<uint64_t>(bytes))) {
      return fail(SN_FAULT_OTHER, to, where,
                  "the destination begins inside the source; the device would read elements that "
                  "it has overwritten");
    }
    return true;
  }

  // A `while` that never ends would hang the device: after some seconds it is a fault.
  bool goes_on(int64_t rounds, int where) {
    if (SN_UNLIKELY(rounds >= kMaxRounds)) {
      return fail(SN_FAULT_OTHER, 0, where, "the loop has not ended after %lld rounds",
                  static_cast<long long>(kMaxRounds));
    }
    return true;
  }
  static constexpr int64_t kMaxRounds = int64_t(1) << 30;

  template <class T>
  T quotient(T a, T b, int where) {
    if (SN_UNLIKELY(b == 0)) return divided_by_zero<T>(where);
    return b == T(-1) && T(-1) < T(0) ? static_cast<T>(-a) : static_cast<T>(a / b);
  }
  template <class T>
  T remainder(T a, T b, int where) {
    if (SN_UNLIKELY(b == 0)) return divided_by_zero<T>(where);
    return b == T(-1) && T(-1) < T(0) ? T(0) : static_cast<T>(a % b);
  }
  template <class T>
  __attribute__((cold, noinline)) T divided_by_zero(int where) {
    fail(SN_FAULT_ARITHMETIC, 0, where, "integer division by zero");
    return 0;
  }
};

// A tensor in global memory: its elements, and the allocation that it must stay inside.
template <class T>
struct Gm {
  T* data;
  SnGmRange range;
  const char* name;

  Gm(const SnLaunch* launch, uint64_t address, const char* tensor)
      : data(reinterpret_cast<T*>(address)), range(launch->gm_range(launch, data)), name(tensor) {}

  // Whether elements [first, last] are inside the allocation.
  bool check(Task& task, int64_t first, int64_t last, int where) const {
    const uintptr_t low = reinterpret_cast<uintptr_t>(data + first);
    const uintptr_t high = reinterpret_cast<uintptr_t>(data + last + 1);
    if (SN_UNLIKELY(low < range.begin || high > range.end)) {
      return task.fail(SN_FAULT_GM_RANGE, low, where,
                       "%s: elements %lld to %lld are outside the tensor's allocation", name,
                       static_cast<long long>(first), static_cast<long long>(last));
    }
    return true;
  }

  bool dimension(Task& task, int64_t index, int64_t extent, int axis, int where) const {
    if (SN_UNLIKELY(index < 0 || index >= extent)) {
      return task.fail(SN_FAULT_GM_RANGE, reinterpret_cast<uintptr_t>(data), where,
                       "index %lld is outside dimension %d of %s, which is %lld",
                       static_cast<long long>(index), axis, name, static_cast<long long>(extent));
    }
    return true;
  }

  // `index` if it is inside the dimension, else 0 after reporting the fault.
  int64_t index(Task& task, int64_t index, int64_t extent, int axis, int where) const {
    return dimension(task, index, extent, axis, where) ? index : 0;
  }

  value_t<T> load(Task& task, int64_t index, int where) const {
    return check(task, index, index, where) ? sn::load(data[index]) : value_t<T>(0);
  }
  void store(Task& task, int64_t index, value_t<T> value, int where) const {
    if (check(task, index, index, where) && !task.failed) data[index] = sn::store<T>(value);
  }
};

}  // namespace sn
