// Reserved ranges and physical blocks, which torch_npu's expandable segments use.
#include <string>

#include "acl_functions.h"
#include "memory.h"
#include "process.h"

using namespace softnpu::abi;

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr,
                                uint64_t flags) {
  SN_NOT_NULL(virPtr);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(alignment == 0, kRtParamInvalid,
             "alignment " + std::to_string(alignment) + "; must be 0, which means the page");
  SN_REQUIRE(expectPtr == nullptr, kFeatureUnsupported, "expectPtr: addresses can't be chosen");
  SN_REQUIRE(flags <= 1, kRtParamInvalid,
             "flags " + std::to_string(flags) + "; 0 for normal, 1 for huge pages");
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().reserve_range(size, virPtr));
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  SN_NOT_NULL(virPtr);
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().release_range(virPtr));
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                             const aclrtPhysicalMemProp* prop, uint64_t flags) {
  SN_NOT_NULL(handle);
  SN_NOT_NULL(prop);
  SN_REQUIRE(size > 0, kRtParamInvalid, "size is 0");
  SN_REQUIRE(flags == 0, kRtParamInvalid, "flags " + std::to_string(flags) + "; must be 0");
  SN_REQUIRE(prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE, kFeatureUnsupported,
             "location type " + std::to_string(prop->location.type) +
                 ": only device memory can be mapped");
  SN_DEVICE(device, static_cast<int32_t>(prop->location.id));
  use_device();
  SN_RETURN(device->memory().create_physical(size, handle));
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  SN_NOT_NULL(handle);
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().destroy_physical(handle));
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags) {
  SN_NOT_NULL(virPtr);
  SN_NOT_NULL(handle);
  SN_REQUIRE(flags == 0, kRtParamInvalid, "flags " + std::to_string(flags) + "; must be 0");
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().map(virPtr, size, offset, handle));
}

aclError aclrtUnmapMem(void* virPtr) {
  SN_NOT_NULL(virPtr);
  SN_CONTEXT(context);
  SN_RETURN(context->device().memory().unmap(virPtr));
}
