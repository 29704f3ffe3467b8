// Core limits. Nothing can be limited: whoever asks gets the cores of the SoC.
#include <string>

#include "acl_functions.h"
#include "process.h"
#include "settings.h"

using namespace softnpu::abi;

namespace {

aclError cores(aclrtDevResLimitType type, uint32_t* value, const char* function) {
  if (value == nullptr) {
    return fail(kRtParamInvalid, function, __FILE__, __LINE__, "value is null");
  }
  const softnpu::Soc& soc = softnpu::settings().soc;
  switch (type) {
    case ACL_RT_DEV_RES_CUBE_CORE:
      *value = soc.aic_cores;
      return kSuccess;
    case ACL_RT_DEV_RES_VECTOR_CORE:
      *value = soc.aiv_cores;
      return kSuccess;
  }
  return fail(kRtParamInvalid, function, __FILE__, __LINE__,
              "resource " + std::to_string(type) + " is unknown; 0 cube, 1 vector cores");
}

}  // namespace

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  SN_DEVICE(device, deviceId);
  return cores(type, value, __func__);
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  SN_DEVICE(device, deviceId);
  return kSuccess;
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  SN_STREAM(queue, stream);
  return cores(type, value, __func__);
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  SN_STREAM(queue, stream);
  return kSuccess;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return cores(type, value, __func__);
}
