// ATen tensors over memory that torch_npu owns.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <string>

#include "objects.h"

namespace softnpu::ops {

// A parameter that an operator can't take; the text says which and why.
struct BadParam {
  int code;
  std::string text;
};

std::optional<at::ScalarType> scalar_type(int32_t acl_dtype);

// A view without autograd keys over the tensor's memory; it owns nothing and can't be resized.
at::Tensor view_of(const aclTensor& tensor, const char* param);
at::Scalar scalar_of(const aclScalar& scalar, const char* param);
// A zero-dimensional tensor that takes part in type promotion like a Python number. `as_float`: all
// its partners are float32, to which ATen would convert it at every run.
at::Tensor wrapped_number(const at::Scalar& value, bool as_float);

}  // namespace softnpu::ops
