#include "tensors.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/complex.h>

#include "abi_names.h"

namespace softnpu::ops {

namespace {

c10::Allocator* no_allocator() { return nullptr; }

// The layouts that op-plugin gives to plain row-major memory, by number of dimensions.
bool is_plain_format(int32_t format) {
  constexpr int32_t kUndefined = -1, kNchw = 0, kNd = 2, kNcdhw = 30, kNcl = 47;
  return format == kNd || format == kNchw || format == kNcl || format == kNcdhw ||
         format == kUndefined;
}

std::string bad_dtype(const char* param, int32_t dtype) {
  return std::string("'") + param + "' has aclDataType " + std::to_string(dtype) +
         ", which softnpu's operators do not compute with";
}

template <typename T>
at::Tensor zero_dim(T value, at::ScalarType type) {
  auto* storage = new T(value);
  auto deleter = [](void* p) { delete static_cast<T*>(p); };
  c10::DataPtr data(storage, storage, deleter, c10::Device(c10::kCPU));
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), sizeof(T),
                                                    std::move(data), no_allocator(), false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(impl)),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({});
  return tensor;
}

}  // namespace

std::optional<at::ScalarType> scalar_type(int32_t acl_dtype) {
  switch (acl_dtype) {
    case kFloat:
      return at::kFloat;
    case kFloat16:
      return at::kHalf;
    case kBF16:
      return at::kBFloat16;
    case kDouble:
      return at::kDouble;
    case kInt8:
      return at::kChar;
    case kUInt8:
      return at::kByte;
    case kInt16:
      return at::kShort;
    case kInt32:
      return at::kInt;
    case kInt64:
      return at::kLong;
    case kUInt16:
      return at::kUInt16;
    case kUInt32:
      return at::kUInt32;
    case kUInt64:
      return at::kUInt64;
    case kBool:
      return at::kBool;
    case kComplex32:
      return at::kComplexHalf;
    case kComplex64:
      return at::kComplexFloat;
    case kComplex128:
      return at::kComplexDouble;
    case kFloat8E5M2:
      return at::kFloat8_e5m2;
    case kFloat8E4M3:
      return at::kFloat8_e4m3fn;
    default:
      return std::nullopt;
  }
}

at::Tensor view_of(const aclTensor& tensor, const char* param) {
  const auto type = scalar_type(tensor.dtype);
  if (!type) {
    throw BadParam{kParamInvalid, bad_dtype(param, tensor.dtype)};
  }
  if (!is_plain_format(tensor.format)) {
    throw BadParam{kParamInvalid,
                   std::string("'") + param + "' has the internal format " +
                       std::to_string(tensor.format) +
                       "; softnpu's operators take plain row-major memory only: keep "
                       "torch.npu.config.allow_internal_format = False and do not cast formats"};
  }
  int64_t extent = 1;  // elements that the view spans
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) {
      extent = 0;
      break;
    }
    extent += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  if (extent > 0 && tensor.data == nullptr) {
    throw BadParam{kNullPointer, std::string("'") + param + "' has elements but no memory"};
  }
  const auto meta = c10::scalarTypeToTypeMeta(*type);
  const auto item = static_cast<int64_t>(meta.itemsize());
  auto* data = static_cast<char*>(tensor.data) + (extent > 0 ? tensor.offset * item : 0);
  auto impl = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), extent * item,
      c10::DataPtr(data, c10::Device(c10::kCPU)), no_allocator(), false);
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(impl)), c10::DispatchKeySet(c10::DispatchKey::CPU), meta);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes, tensor.strides);
  return view;
}

at::Scalar scalar_of(const aclScalar& scalar, const char* param) {
  switch (scalar.dtype) {
    case kBool:
      return at::Scalar(scalar.integer != 0);
    case kInt8:
    case kUInt8:
    case kInt16:
    case kInt32:
    case kInt64:
      return at::Scalar(scalar.integer);
    case kFloat:
    case kDouble:
      return at::Scalar(scalar.real);
    case kComplex128:
      return at::Scalar(c10::complex<double>(scalar.parts[0], scalar.parts[1]));
    default:
      throw BadParam{kParamInvalid, bad_dtype(param, scalar.dtype)};
  }
}

at::Tensor wrapped_number(const at::Scalar& value, bool as_float) {
  at::Tensor tensor;
  if (as_float && !value.isBoolean() && !value.isComplex()) {
    tensor = zero_dim<float>(value.toFloat(), at::kFloat);
  } else if (value.isBoolean()) {
    tensor = zero_dim<bool>(value.toBool(), at::kBool);
  } else if (value.isIntegral(false)) {
    tensor = zero_dim<int64_t>(value.toLong(), at::kLong);
  } else if (value.isComplex()) {
    tensor = zero_dim<c10::complex<double>>(value.toComplexDouble(), at::kComplexDouble);
  } else {
    tensor = zero_dim<double>(value.toDouble(), at::kDouble);
  }
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace softnpu::ops
