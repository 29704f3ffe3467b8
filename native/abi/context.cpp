#include <array>
#include <atomic>
#include <string>

#include "acl_functions.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::Context;

namespace {

// By aclSysParamOpt. Operators give the same result for the same input, thread count and build
// whatever these say, so they are only kept.
std::array<std::atomic<int64_t>, 3> parameters{};

bool known(aclSysParamOpt opt) { return opt >= 0 && opt <= ACL_OPT_STRONG_CONSISTENCY; }

}  // namespace

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  SN_NOT_NULL(context);
  SN_DEVICE(device, deviceId);
  use_device();
  Context* created = nullptr;
  SN_TRY(Context::create(*device, &created));
  *context = created;
  return kSuccess;
}

aclError aclrtDestroyContext(aclrtContext context) {
  SN_FIND(check_not_forked(__func__));
  Context* found = Context::from_handle(context);
  SN_REQUIRE(found != nullptr, kRtInvalidHandle, "the handle is no live context");
  SN_RETURN(Context::destroy(*found));
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  SN_NOT_NULL(context);
  SN_CONTEXT(current);
  *context = current;
  return kSuccess;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  SN_FIND(check_not_forked(__func__));
  Context* found = Context::from_handle(context);
  SN_REQUIRE(found != nullptr, kRtInvalidHandle,
             "the handle is no live context; aclrtGetCurrentContext gives one");
  SN_RETURN(Context::set_current(found));
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  SN_REQUIRE(known(opt), kRtParamInvalid, "option " + std::to_string(opt) + " is unknown");
  parameters[static_cast<size_t>(opt)].store(value);
  return kSuccess;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  SN_REQUIRE(known(opt), kRtParamInvalid, "option " + std::to_string(opt) + " is unknown");
  SN_CONTEXT(context);
  parameters[static_cast<size_t>(opt)].store(value);
  return kSuccess;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  SN_NOT_NULL(value);
  SN_REQUIRE(known(opt), kRtParamInvalid, "option " + std::to_string(opt) + " is unknown");
  *value = parameters[static_cast<size_t>(opt)].load();
  return kSuccess;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  SN_REQUIRE(mode == ACL_RT_OVERFLOW_MODE_SATURATION || mode == ACL_RT_OVERFLOW_MODE_INFNAN,
             kRtParamInvalid, "overflow mode " + std::to_string(mode) + " is unknown");
  SN_REQUIRE(mode == ACL_RT_OVERFLOW_MODE_INFNAN, kFeatureUnsupported,
             "saturation mode is not implemented: overflow gives inf; unset "
             "INF_NAN_MODE_FORCE_DISABLE and INF_NAN_MODE_ENABLE");
  return kSuccess;
}
