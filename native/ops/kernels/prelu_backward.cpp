#include <ATen/ops/where.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// One slope, or one per channel (dimension 1).
void prelu_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& weight,
                    const at::Tensor& grad_input, const at::Tensor& grad_weight) {
  std::vector<int64_t> shape(self.dim(), 1);
  if (weight.numel() > 1) {
    shape[self.dim() > 1 ? 1 : 0] = weight.numel();
  }
  const at::Tensor slope = weight.reshape(shape);
  const at::Tensor positive = self.gt(0);
  const at::Tensor zero = at::Tensor(self.new_zeros({}));
  grad_input.copy_(at::where(positive, grad_output, grad_output * slope));
  const at::Tensor grads = at::where(positive, zero, grad_output * self);
  grad_weight.copy_(grads.sum_to_size(shape).reshape(grad_weight.sizes()));
}

}  // namespace softnpu::ops::kernels
