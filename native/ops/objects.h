// The objects that aclnn functions take: what torch_npu builds with aclCreate* and passes by
// pointer. Layout is private to this library; callers only hold pointers.
#pragma once

#include <atomic>
#include <complex>
#include <cstdint>
#include <vector>

struct aclTensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t offset = 0;            // in elements, from `data`
  int32_t dtype = -1;            // aclDataType
  int32_t format = 2;            // aclFormat
  void* data = nullptr;
  // An operator whose result size depends on values (Nonzero) keeps the object until it has run and
  // then writes the size, so the caller's destroy must not be the last word.
  mutable std::atomic<int> references{1};
};

struct aclScalar {
  int32_t dtype = -1;
  union {
    int64_t integer;
    double real;
    double parts[2];
  };
};

struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<uint8_t> values;
};
struct aclTensorList {
  std::vector<const aclTensor*> items;
};
struct aclScalarList {
  std::vector<const aclScalar*> items;
};

namespace softnpu::ops {

// aclDataType numbers that occur here.
enum AclType : int32_t {
  kFloat = 0,
  kFloat16 = 1,
  kInt8 = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt16 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kInt64 = 9,
  kUInt64 = 10,
  kDouble = 11,
  kBool = 12,
  kComplex64 = 16,
  kComplex128 = 17,
  kBF16 = 27,
  kComplex32 = 33,
  kFloat8E5M2 = 35,
  kFloat8E4M3 = 36,
};

void retain(const aclTensor* tensor);
void release(const aclTensor* tensor);

}  // namespace softnpu::ops
