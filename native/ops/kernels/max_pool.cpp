// Maximum pools whose positions torch_npu keeps in a form that ATen does not know: a device mask,
// of which only the backward makes use, or int32 indices.
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/max_pool3d_with_indices_backward.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void max_pool2d_with_mask(const at::Tensor& self, at::IntArrayRef kernel_size,
                          at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                          bool ceil_mode, const at::Tensor& out, const at::Tensor& mask) {
  out.copy_(at::max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode));
  mask.zero_();
}

void max_pool2d_with_indices_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                      const at::Tensor& indices, at::IntArrayRef kernel_size,
                                      at::IntArrayRef stride, at::IntArrayRef padding,
                                      at::IntArrayRef dilation, bool ceil_mode,
                                      const at::Tensor& grad_input) {
  grad_input.copy_(at::max_pool2d_with_indices_backward(
      grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices.to(at::kLong)));
}

void max_pool2d_with_mask_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                   const at::Tensor& /*mask*/, at::IntArrayRef kernel_size,
                                   at::IntArrayRef stride, at::IntArrayRef padding,
                                   at::IntArrayRef dilation, bool ceil_mode,
                                   const at::Tensor& grad_input) {
  const at::Tensor wide = self.to(at::kFloat);
  const at::Tensor indices = std::get<1>(
      at::max_pool2d_with_indices(wide, kernel_size, stride, padding, dilation, ceil_mode));
  max_pool2d_with_indices_backward(grad_output.to(at::kFloat), wide, indices, kernel_size, stride,
                                   padding, dilation, ceil_mode, grad_input);
}

void max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                         const at::Tensor& indices, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         bool ceil_mode, const at::Tensor& grad_input) {
  grad_input.copy_(at::max_pool3d_with_indices_backward(
      grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices.to(at::kLong)));
}

}  // namespace softnpu::ops::kernels
