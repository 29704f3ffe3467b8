// How a failure leaves an entry point: its ACL number, the recent-error text of the calling thread,
// and a line of the log.
#pragma once

#include <string>

#include "acl_types.h"
#include "error.h"

namespace softnpu::abi {

// ACL numbers that entry points return on their own account.
enum AclNumber : aclError {
  kSuccess = 0,
  kInvalidParam = 100000,
  kRepeatInitialize = 100002,
  kInvalidFile = 100003,
  kInvalidDumpConfig = 100009,
  kRepeatFinalize = 100037,
  kApiNotSupported = 200001,
  kFeatureUnsupported = 200006,
  kRtParamInvalid = 107000,
  kRtInvalidDevice = 107001,
  kRtContextNull = 107002,
  kRtInvalidHandle = 107017,
  kRtArrayTooShort = 107039,
  // torch_npu takes this one for "go on without": only where that is right.
  kRtFeatureNotSupported = 207000,
  kRtResourceAllocFail = 207005,
  kRtInternal = 507000,
  kRtDeviceSetup = 507033,
  kRtEventSyncTimeout = 507047,
};

aclError number_of(Code code);  // tables/acl_errors.yaml

// Records and logs a failure; returns `number`. `file` may be a whole path. The condition that did
// not hold is for the log alone.
aclError fail(aclError number, const char* function, const char* file, int line,
              const std::string& text, const char* condition = nullptr);
// The number of an engine outcome, recorded and logged when it is a failure.
aclError report(const Error& error, const char* function, const char* file, int line);
// For functions that are exported but not implemented.
void refuse(const char* function, const char* advice, bool also_stderr);

// The calling thread's recent-error text, nullptr when there has been none.
const char* recent_text();
aclError last_number();
void clear_last_number();

}  // namespace softnpu::abi

#define SN_FAIL(number, text) \
  return ::softnpu::abi::fail(number, __func__, __FILE__, __LINE__, text)

// `text` says what is wrong and what to do.
#define SN_REQUIRE(condition, number, text)                                                \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      return ::softnpu::abi::fail(number, __func__, __FILE__, __LINE__, text, #condition); \
    }                                                                                      \
  } while (false)

#define SN_NOT_NULL(pointer) \
  SN_REQUIRE((pointer) != nullptr, ::softnpu::abi::kRtParamInvalid, #pointer " is null")

#define SN_RETURN(expression) \
  return ::softnpu::abi::report(expression, __func__, __FILE__, __LINE__)

#define SN_TRY(expression)                                                                     \
  do {                                                                                         \
    if (aclError sn_number = ::softnpu::abi::report(expression, __func__, __FILE__, __LINE__)) \
      return sn_number;                                                                        \
  } while (false)
