// aclCreate* and aclDestroy* of libopapi/libnnopbase, and the query that reads a tensor's size
// back.
//
// Other names that op-plugin looks up there are deliberately not exported; without them it takes a
// path that works: InitHugeMemThreadLocal, UnInitHugeMemThreadLocal, ReleaseHugeMem (a pool for the
// host side of real operators), PTAGetExecCache, PTAFindExecCache, InitPTACacheThreadLocal,
// UnInitPTACacheThreadLocal, SetPTAHashKey, SetPTACacheHashKey, CanUsePTACache,
// AddTensorAddrToCachedList (a cache of executors, whose addresses would go stale here) and
// aclnnSetPytorchRandom (another order of random numbers).
#include "objects.h"

#include <cstring>
#include <new>

#include "abi_names.h"

namespace softnpu::ops {

void retain(const aclTensor* tensor) { tensor->references.fetch_add(1, std::memory_order_relaxed); }

void release(const aclTensor* tensor) {
  if (tensor != nullptr && tensor->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete tensor;
  }
}

namespace {

// A scalar's bytes are those of its C type; they are kept widened.
bool read_scalar(const void* value, int32_t dtype, aclScalar* out) {
  auto as_integer = [&](auto typed) {
    std::memcpy(&typed, value, sizeof typed);
    out->integer = static_cast<int64_t>(typed);
  };
  auto as_real = [&](auto typed) {
    std::memcpy(&typed, value, sizeof typed);
    out->real = static_cast<double>(typed);
  };
  switch (dtype) {
    case kInt8:
      as_integer(int8_t{});
      return true;
    case kUInt8:
      as_integer(uint8_t{});
      return true;
    case kInt16:
      as_integer(int16_t{});
      return true;
    case kInt32:
      as_integer(int32_t{});
      return true;
    case kInt64:
      as_integer(int64_t{});
      return true;
    case kBool:
      as_integer(uint8_t{});
      return true;
    case kFloat:
      as_real(float{});
      return true;
    case kDouble:
      as_real(double{});
      return true;
    case kComplex128:
      std::memcpy(out->parts, value, sizeof out->parts);
      return true;
    default:
      return false;
  }
}

template <typename Array, typename Value>
Array* make_array(const Value* values, uint64_t size) {
  auto* array = new (std::nothrow) Array;
  if (array != nullptr && size > 0) {
    array->values.assign(values, values + size);
  }
  return array;
}

}  // namespace
}  // namespace softnpu::ops

using namespace softnpu::ops;

SOFTNPU_EXPORT aclTensor* aclCreateTensor(const int64_t* view_dims, uint64_t view_dims_num,
                                          int32_t dtype, const int64_t* stride, int64_t offset,
                                          int32_t format, const int64_t* /*storage_dims*/,
                                          uint64_t /*storage_dims_num*/, void* data) {
  if (view_dims_num > 0 && view_dims == nullptr) {
    return nullptr;
  }
  auto* tensor = new (std::nothrow) aclTensor;
  if (tensor == nullptr) {
    return nullptr;
  }
  tensor->sizes.assign(view_dims, view_dims + view_dims_num);
  if (stride != nullptr) {
    tensor->strides.assign(stride, stride + view_dims_num);
  } else {
    tensor->strides.resize(view_dims_num);
    int64_t step = 1;
    for (uint64_t i = view_dims_num; i-- > 0;) {
      tensor->strides[i] = step;
      step *= view_dims[i] > 0 ? view_dims[i] : 1;
    }
  }
  tensor->offset = offset;
  tensor->dtype = dtype;
  tensor->format = format;
  tensor->data = data;
  return tensor;
}

SOFTNPU_EXPORT aclScalar* aclCreateScalar(void* value, int32_t dtype) {
  auto* scalar = new (std::nothrow) aclScalar;
  if (scalar == nullptr || value == nullptr || !read_scalar(value, dtype, scalar)) {
    delete scalar;
    return nullptr;
  }
  scalar->dtype = dtype;
  return scalar;
}

SOFTNPU_EXPORT aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t size) {
  return make_array<aclIntArray>(values, size);
}

SOFTNPU_EXPORT aclFloatArray* aclCreateFloatArray(const float* values, uint64_t size) {
  return make_array<aclFloatArray>(values, size);
}

SOFTNPU_EXPORT aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t size) {
  return make_array<aclBoolArray>(values, size);
}

SOFTNPU_EXPORT aclTensorList* aclCreateTensorList(const aclTensor* const* items, uint64_t size) {
  auto* list = new (std::nothrow) aclTensorList;
  if (list != nullptr) {
    list->items.assign(items, items + size);
  }
  return list;
}

SOFTNPU_EXPORT aclScalarList* aclCreateScalarList(const aclScalar* const* items, uint64_t size) {
  auto* list = new (std::nothrow) aclScalarList;
  if (list != nullptr) {
    list->items.assign(items, items + size);
  }
  return list;
}

SOFTNPU_EXPORT int aclDestroyTensor(const aclTensor* tensor) {
  release(tensor);
  return 0;
}

SOFTNPU_EXPORT int aclDestroyScalar(const aclScalar* scalar) {
  delete scalar;
  return 0;
}

SOFTNPU_EXPORT int aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return 0;
}

SOFTNPU_EXPORT int aclDestroyFloatArray(const aclFloatArray* array) {
  delete array;
  return 0;
}

SOFTNPU_EXPORT int aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return 0;
}

// A list owns its items: op-plugin creates them for the list and releases only the list.
SOFTNPU_EXPORT int aclDestroyTensorList(const aclTensorList* list) {
  if (list != nullptr) {
    for (const aclTensor* item : list->items) {
      release(item);
    }
    delete list;
  }
  return 0;
}

SOFTNPU_EXPORT int aclDestroyScalarList(const aclScalarList* list) {
  if (list != nullptr) {
    for (const aclScalar* item : list->items) {
      delete item;
    }
    delete list;
  }
  return 0;
}

// The caller owns the array it gets (op-plugin: delete[]).
SOFTNPU_EXPORT int aclGetViewShape(const aclTensor* tensor, int64_t** dims, uint64_t* count) {
  if (tensor == nullptr || dims == nullptr || count == nullptr) {
    return kNullPointer;
  }
  *count = tensor->sizes.size();
  *dims = new (std::nothrow) int64_t[tensor->sizes.size()];
  if (*dims == nullptr) {
    return kParamInvalid;
  }
  std::memcpy(*dims, tensor->sizes.data(), tensor->sizes.size() * sizeof(int64_t));
  return 0;
}
