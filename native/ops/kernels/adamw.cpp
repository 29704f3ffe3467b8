// One step of AdamW as torch.optim.AdamW defines it. `step` counts the steps done before.
#include <ATen/ops/maximum.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void adamw(const at::Tensor& var, const at::Tensor& m, const at::Tensor& v, const at::Tensor& max_v,
           const at::Tensor& grad, const at::Tensor& step, double lr, double beta1, double beta2,
           double weight_decay, double eps, bool amsgrad, bool maximize) {
  const double count = step.item<double>() + 1;
  const at::Tensor gradient = maximize ? grad.neg() : grad;
  var.mul_(1 - lr * weight_decay);
  m.lerp_(gradient, 1 - beta1);
  v.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  at::Tensor second = v;
  if (amsgrad) {
    max_v.copy_(at::maximum(max_v, v));
    second = max_v;
  }
  const at::Tensor denominator =
      second.sqrt().div_(std::sqrt(1 - std::pow(beta2, count))).add_(eps);
  var.addcdiv_(m, denominator, -lr / (1 - std::pow(beta1, count)));
}

}  // namespace softnpu::ops::kernels
