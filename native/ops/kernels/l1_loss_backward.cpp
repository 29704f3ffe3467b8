#include <ATen/ops/sign.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void l1_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                      const at::Tensor& target, int64_t reduction, const at::Tensor& grad_input) {
  constexpr int64_t kMean = 1;
  at::Tensor grad = at::sign(self - target) * grad_output;
  if (reduction == kMean) {
    grad = grad / self.numel();
  }
  grad_input.copy_(grad);
}

}  // namespace softnpu::ops::kernels
