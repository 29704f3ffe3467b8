// Average pools. A divisor of zero stands for "none".
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/avg_pool3d_backward.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {
std::optional<int64_t> nonzero_or_none(int64_t divisor) {
  return divisor == 0 ? std::nullopt : std::optional(divisor);
}
}  // namespace

void avg_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                int64_t divisor_override, int64_t /*cube_math_type*/, const at::Tensor& out) {
  out.copy_(at::avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                           nonzero_or_none(divisor_override)));
}

void avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                         at::IntArrayRef kernel_size, at::IntArrayRef stride,
                         at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         int64_t divisor_override, int64_t /*cube_math_type*/,
                         const at::Tensor& grad_input) {
  grad_input.copy_(at::avg_pool2d_backward(grad_output, self, kernel_size, stride, padding,
                                           ceil_mode, count_include_pad,
                                           nonzero_or_none(divisor_override)));
}

void avg_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                int64_t divisor_override, const at::Tensor& out) {
  out.copy_(at::avg_pool3d(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                           nonzero_or_none(divisor_override)));
}

void avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                         at::IntArrayRef kernel_size, at::IntArrayRef stride,
                         at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         int64_t divisor_override, const at::Tensor& grad_input) {
  grad_input.copy_(at::avg_pool3d_backward(grad_output, self, kernel_size, stride, padding,
                                           ceil_mode, count_include_pad,
                                           nonzero_or_none(divisor_override)));
}

}  // namespace softnpu::ops::kernels
