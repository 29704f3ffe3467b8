#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "acl_functions.h"
#include "process.h"
#include "settings.h"

using namespace softnpu::abi;
using softnpu::Context;
using softnpu::Device;
using softnpu::settings;

aclError aclrtSetDevice(int32_t deviceId) {
  SN_DEVICE(device, deviceId);
  use_device();
  SN_RETURN(Device::select(device->index()));
}

aclError aclrtResetDevice(int32_t deviceId) {
  SN_DEVICE(device, deviceId);
  SN_RETURN(device->reset());
}

aclError aclrtGetDevice(int32_t* deviceId) {
  SN_NOT_NULL(deviceId);
  if (const Context* context = Context::current()) {
    *deviceId = context->device().index();
    return kSuccess;
  }
  SN_REQUIRE(default_device() >= 0, kRtContextNull,
             "no device is selected in this thread; call aclrtSetDevice first");
  *deviceId = default_device();
  return kSuccess;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  SN_NOT_NULL(count);
  *count = Device::count();
  return kSuccess;
}

// The program runs on the host and drives the device; the other mode is a program on the device.
aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  SN_NOT_NULL(runMode);
  *runMode = ACL_HOST;
  return kSuccess;
}

aclError aclrtSynchronizeDevice() {
  SN_CONTEXT(context);
  SN_RETURN(context->synchronize());
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  SN_REQUIRE(timeout >= -1, kRtParamInvalid,
             "timeout " + std::to_string(timeout) + " ms; -1 waits for ever");
  SN_CONTEXT(context);
  SN_RETURN(context->synchronize(timeout));
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  SN_NOT_NULL(value);
  SN_DEVICE(device, static_cast<int32_t>(deviceId));
  const softnpu::Soc& soc = settings().soc;
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = soc.aic_cores;
      return kSuccess;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = soc.aiv_cores;
      return kSuccess;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = static_cast<int64_t>(soc.l2_bytes);
      return kSuccess;
    default:
      SN_FAIL(kRtParamInvalid, "deviceInfo " + std::to_string(deviceInfo) + " is unknown");
  }
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  SN_NOT_NULL(value);
  SN_DEVICE(device, static_cast<int32_t>(deviceId));
  const softnpu::Soc& soc = settings().soc;
  switch (attr) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = soc.aic_cores;
      return kSuccess;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = soc.aiv_cores;
      return kSuccess;
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
      *value = static_cast<int64_t>(soc.ub_bytes);
      return kSuccess;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = static_cast<int64_t>(settings().hbm_bytes);
      return kSuccess;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = static_cast<int64_t>(soc.l2_bytes);
      return kSuccess;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      *value = device->index();
      return kSuccess;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 0;
      return kSuccess;
    case ACL_DEV_ATTR_NPU_ARCH:
      *value = soc.npu_arch;
      return kSuccess;
    default:
      SN_FAIL(kFeatureUnsupported,
              "attribute " + std::to_string(attr) + " is not known for " + std::string(soc.name));
  }
}

const char* aclrtGetSocName() { return settings().soc.name; }

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  SN_NOT_NULL(canAccessPeer);
  SN_DEVICE(device, deviceId);
  SN_DEVICE(peer, peerDeviceId);
  *canAccessPeer = device != peer ? 1 : 0;
  return kSuccess;
}

// All devices are memory of one process, so access needs no enabling: only the arguments count.
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  SN_REQUIRE(flags == 0, kRtParamInvalid, "flags " + std::to_string(flags) + "; must be 0");
  SN_DEVICE(peer, peerDeviceId);
  SN_CONTEXT(context);
  SN_REQUIRE(peer != &context->device(), kRtParamInvalid,
             "device " + std::to_string(peerDeviceId) + " is the current device, not a peer");
  return kSuccess;
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  SN_NOT_NULL(uuid);
  SN_DEVICE(device, deviceId);
  std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
  std::snprintf(uuid->bytes, sizeof(uuid->bytes), "softnpu-%06d", device->index());
  return kSuccess;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  SN_NOT_NULL(logicDevId);
  SN_DEVICE(device, userDevid);
  *logicDevId = device->index();
  return kSuccess;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  SN_REQUIRE(flags != nullptr || active != nullptr, kRtParamInvalid, "flags and active are null");
  SN_DEVICE(device, deviceId);
  if (flags != nullptr) {
    *flags = 0;
  }
  if (active != nullptr) {
    *active = device->primary_active() ? 1 : 0;
  }
  return kSuccess;
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  SN_NOT_NULL(pid);
  *pid = getpid();
  return kSuccess;
}

// Without detail: the recent-error text says more than the structure could.
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  SN_NOT_NULL(errorInfo);
  SN_DEVICE(device, deviceId);
  const bool broken = device->primary_active() && device->primary_context().broken();
  errorInfo->tryRepair = 0;
  errorInfo->hasDetail = 0;
  errorInfo->errorType = broken ? ACL_RT_ERROR_OTHERS : ACL_RT_NO_ERROR;
  return kSuccess;
}

aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize,
                            size_t* retSize) {
  SN_NOT_NULL(retSize);
  SN_REQUIRE(memUceInfoArray != nullptr || arraySize == 0, kRtParamInvalid,
             "memUceInfoArray is null");
  SN_DEVICE(device, deviceId);
  *retSize = 0;
  return kSuccess;
}
