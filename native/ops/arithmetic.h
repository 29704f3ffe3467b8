// Operators on tensors for the hand-written kernels. ATen's own header of this purpose includes
// every operator there is, which costs each build a quarter of a minute.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace softnpu::ops {

inline at::Tensor operator+(const at::Tensor& a, const at::Tensor& b) { return a.add(b); }
inline at::Tensor operator+(const at::Tensor& a, const at::Scalar& b) { return a.add(b); }
inline at::Tensor operator+(const at::Scalar& a, const at::Tensor& b) { return b.add(a); }
inline at::Tensor operator-(const at::Tensor& a, const at::Tensor& b) { return a.sub(b); }
inline at::Tensor operator-(const at::Tensor& a, const at::Scalar& b) { return a.sub(b); }
inline at::Tensor operator-(const at::Scalar& a, const at::Tensor& b) { return b.neg().add(a); }
inline at::Tensor operator*(const at::Tensor& a, const at::Tensor& b) { return a.mul(b); }
inline at::Tensor operator*(const at::Tensor& a, const at::Scalar& b) { return a.mul(b); }
inline at::Tensor operator*(const at::Scalar& a, const at::Tensor& b) { return b.mul(a); }
inline at::Tensor operator/(const at::Tensor& a, const at::Scalar& b) { return a.div(b); }

// Copies a result into the output that was passed; its shape must be the output's.
inline void put(const at::Tensor& result, const at::Tensor& out, const char* name = "out") {
  TORCH_CHECK(result.sizes() == out.sizes(), "output '", name, "' has shape ", out.sizes(),
              ", the operator computes ", result.sizes());
  out.copy_(result);
}

}  // namespace softnpu::ops
