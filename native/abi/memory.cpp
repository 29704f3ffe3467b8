#include "memory.h"

#include <unistd.h>

#include <string>

#include "acl_functions.h"
#include "operations.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::CopyKind;
using softnpu::Device;
using softnpu::DeviceMemory;
using softnpu::Error;
using softnpu::PinnedMemory;
using softnpu::Stream;

namespace {

bool known_policy(aclrtMemMallocPolicy policy) {
  // A page-size wish (0 to 7), with bits that ask for a kind of memory or an access right.
  constexpr uint32_t kBits = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH |
                             ACL_MEM_ACCESS_USER_SPACE_READONLY;
  return (static_cast<uint32_t>(policy) & ~kBits) <= ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

std::string unknown_policy(aclrtMemMallocPolicy policy) {
  return "allocation policy " + std::to_string(policy) + " is unknown";
}

// The device that owns `address`; the current one first.
Device* owner(const void* address) {
  for (uint32_t i = 0; i < Device::count(); ++i) {
    Device* device = Device::get(static_cast<int>(i));
    if (device->memory().find(address).begin != 0) {
      return device;
    }
  }
  return nullptr;
}

bool known_copy(aclrtMemcpyKind kind, CopyKind* out) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      *out = CopyKind::HostToHost;
      return true;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      *out = CopyKind::HostToDevice;
      return true;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      *out = CopyKind::DeviceToHost;
      return true;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      *out = CopyKind::DeviceToDevice;
      return true;
    case ACL_MEMCPY_DEFAULT:
      *out = CopyKind::Default;
      return true;
  }
  return false;
}

}  // namespace

#define SN_COPY_KIND(name, kind)                       \
  CopyKind name = CopyKind::Default;                   \
  SN_REQUIRE(known_copy(kind, &name), kRtParamInvalid, \
             "copy kind " + std::to_string(kind) + " is unknown")

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  SN_NOT_NULL(devPtr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(known_policy(policy), kRtParamInvalid, unknown_policy(policy));
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().allocate(size, devPtr));
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  SN_NOT_NULL(devPtr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(known_policy(policy), kRtParamInvalid, unknown_policy(policy));
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().allocate(size, devPtr));
}

// Freeing waits for nothing on a real device either: the caller must know that the memory is idle.
aclError aclrtFree(void* devPtr) {
  SN_NOT_NULL(devPtr);
  SN_FIND(check_not_forked(__func__));
  Device* device = owner(devPtr);
  SN_REQUIRE(device != nullptr, number_of(softnpu::Code::InvalidFree),
             "the address is not device memory; was it freed before, or its device reset?");
  SN_RETURN(device->memory().release(devPtr));
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  SN_NOT_NULL(hostPtr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(PinnedMemory::instance().allocate(size, hostPtr));
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  SN_NOT_NULL(ptr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  if (cfg != nullptr && cfg->numAttrs > 0) {
    SN_NOT_NULL(cfg->attrs);
    for (size_t i = 0; i < cfg->numAttrs; ++i) {
      SN_REQUIRE(cfg->attrs[i].attr == ACL_RT_MEM_ATTR_VA_FLAG, kFeatureUnsupported,
                 "attribute " + std::to_string(cfg->attrs[i].attr) +
                     " is not implemented, only the VA flag (3)");
    }
  }
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(PinnedMemory::instance().allocate(size, ptr));
}

aclError aclrtFreeHost(void* hostPtr) {
  SN_NOT_NULL(hostPtr);
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(PinnedMemory::instance().release(hostPtr));
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  SN_NOT_NULL(ptr);
  SN_NOT_NULL(devPtr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(type == ACL_HOST_REGISTER_MAPPED || type == ACL_HOST_REGISTER_IOMEMORY ||
                 type == ACL_HOST_REGISTER_READONLY,
             kRtParamInvalid, "type " + std::to_string(type) + " is unknown");
  SN_FIND(check_not_forked(__func__));
  SN_TRY(PinnedMemory::instance().register_range(ptr, size));
  *devPtr = ptr;
  return kSuccess;
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  SN_NOT_NULL(ptr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE((flag & ~static_cast<uint32_t>(ACL_HOST_REG_FLAGS_KNOWN)) == 0, kRtParamInvalid,
             "flag " + std::to_string(flag) + " has unknown bits");
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(PinnedMemory::instance().register_range(ptr, size));
}

aclError aclrtHostUnregister(void* ptr) {
  SN_NOT_NULL(ptr);
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(PinnedMemory::instance().unregister_range(ptr));
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  SN_NOT_NULL(ptr);
  SN_NOT_NULL(attributes);
  SN_FIND(check_not_forked(__func__));
  *attributes = {};
  attributes->pageSize = static_cast<uint32_t>(sysconf(_SC_PAGESIZE));
  if (const Device* device = owner(ptr)) {
    attributes->location = {static_cast<uint32_t>(device->index()), ACL_MEM_LOCATION_TYPE_DEVICE};
  } else if (PinnedMemory::instance().contains(ptr, 1)) {
    attributes->location = {0, ACL_MEM_LOCATION_TYPE_HOST};
  } else {
    attributes->location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
  }
  return kSuccess;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  SN_NOT_NULL(free);
  SN_NOT_NULL(total);
  SN_REQUIRE(attr >= ACL_DDR_MEM && attr <= ACL_MEM_P2P_HUGE1G, kRtParamInvalid,
             "memory attribute " + std::to_string(attr) + " is unknown");
  SN_CONTEXT(context);
  const bool ddr = attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL ||
                   attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
  if (ddr) {  // the chips that softnpu knows have HBM only
    *free = 0;
    *total = 0;
    return kSuccess;
  }
  context->device().memory().usage(free, total);
  return kSuccess;
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  SN_COPY_KIND(copy_kind, kind);
  SN_CONTEXT(context);
  SN_RETURN(softnpu::copy(*context, dst, destMax, src, count, copy_kind));
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
  SN_COPY_KIND(copy_kind, kind);
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::copy_async(*queue, dst, destMax, src, count, copy_kind, "aclrtMemcpyAsync"));
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind) {
  SN_COPY_KIND(copy_kind, kind);
  SN_CONTEXT(context);
  SN_RETURN(softnpu::copy_2d(*context, dst, dpitch, src, spitch, width, height, copy_kind));
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream) {
  SN_COPY_KIND(copy_kind, kind);
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::copy_2d_async(*queue, dst, dpitch, src, spitch, width, height, copy_kind));
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  SN_CONTEXT(context);
  SN_RETURN(softnpu::fill(*context, devPtr, maxCount, value, count));
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::fill_async(*queue, devPtr, maxCount, value, count));
}

// There is no cache whose content could differ from memory, so nothing is left to do.
aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  SN_NOT_NULL(src);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(cmoType >= ACL_RT_CMO_TYPE_PREFETCH && cmoType <= ACL_RT_CMO_TYPE_FLUSH,
             kRtParamInvalid, "cache operation " + std::to_string(cmoType) + " is unknown");
  SN_STREAM(queue, stream);
  SN_REQUIRE(owner(src) != nullptr, kRtParamInvalid, "src is not device memory");
  return kSuccess;
}
