// What torch_npu links of the profiler's interface. Profiling is off: registrations are accepted
// and reports dropped, as the real library does while nothing is being profiled. Starting a profile
// (aclprof*) refuses.
#include "acl_functions.h"
#include "device.h"
#include "errors.h"

int32_t MsprofRegisterCallback(uint32_t, ProfCommandHandle) { return 0; }
int32_t MsprofReportApi(uint32_t, const struct MsprofApi*) { return 0; }
int32_t MsprofReportCompactInfo(uint32_t, const VOID_PTR, uint32_t) { return 0; }
int32_t MsprofReportAdditionalInfo(uint32_t, const VOID_PTR, uint32_t) { return 0; }

// FNV-1a: equal names give equal numbers, which is all that callers rely on.
uint64_t MsprofGetHashId(const char* hashInfo, size_t length) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; hashInfo != nullptr && i < length; ++i) {
    hash = (hash ^ static_cast<unsigned char>(hashInfo[i])) * 1099511628211u;
  }
  return hash;
}

uint64_t MsprofSysCycleTime() { return static_cast<uint64_t>(softnpu::Device::now_ns()); }

// Below every version that has a system counter, so that clocks are the host's.
int32_t halGetAPIVersion(int32_t* version) {
  SN_NOT_NULL(version);
  *version = 0;
  return 0;
}
