// Tensor descriptions and buffers of the older operator interface: plain objects.
#include <string>
#include <vector>

#include "acl_functions.h"
#include "errors.h"

using namespace softnpu::abi;

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
  aclFormat storage_format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  aclMemType placement = ACL_MEMTYPE_DEVICE;
  std::string name;
};

struct aclDataBuffer {
  void* data;
  size_t size;
};

namespace {

bool assign_dims(std::vector<int64_t>* out, int count, const int64_t* dims) {
  if (count < 0 || (count > 0 && dims == nullptr)) {
    return false;
  }
  out->assign(dims, dims + count);
  return true;
}

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                   aclFormat format) {
  std::vector<int64_t> shape;
  if (!assign_dims(&shape, numDims, dims)) {
    fail(kInvalidParam, __func__, __FILE__, __LINE__,
         "numDims is " + std::to_string(numDims) + (dims == nullptr ? ", dims is null" : ""));
    return nullptr;
  }
  return new aclTensorDesc{dataType,           format, shape, ACL_FORMAT_UNDEFINED, {},
                           ACL_MEMTYPE_DEVICE, {}};
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_DT_UNDEFINED : desc->type;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_FORMAT_UNDEFINED : desc->format;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return desc == nullptr ? 0 : desc->dims.size();
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  SN_REQUIRE(desc != nullptr && dimSize != nullptr, kInvalidParam, "desc or dimSize is null");
  SN_REQUIRE(index < desc->dims.size(), kInvalidParam,
             "index " + std::to_string(index) + " of " + std::to_string(desc->dims.size()) +
                 " dimensions");
  *dimSize = desc->dims[index];
  return kSuccess;
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc != nullptr) {
    desc->name = name == nullptr ? "" : name;
  }
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  SN_REQUIRE(desc != nullptr, kInvalidParam, "desc is null");
  desc->storage_format = format;
  return kSuccess;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  SN_REQUIRE(desc != nullptr, kInvalidParam, "desc is null");
  SN_REQUIRE(assign_dims(&desc->storage_dims, numDims, dims), kInvalidParam,
             "numDims is " + std::to_string(numDims) + " or dims is null");
  return kSuccess;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  SN_REQUIRE(desc != nullptr, kInvalidParam, "desc is null");
  SN_REQUIRE(memType >= ACL_MEMTYPE_DEVICE && memType <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT,
             kInvalidParam, "memory type " + std::to_string(memType) + " is unknown");
  desc->placement = memType;
  return kSuccess;
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return new aclDataBuffer{data, size};
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  SN_REQUIRE(dataBuffer != nullptr, kInvalidParam, "dataBuffer is null");
  delete dataBuffer;
  return kSuccess;
}
