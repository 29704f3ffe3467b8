// Gradients of losses that ATen differentiates as compositions.
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kMean = 1;

void store_gradient(const at::Tensor& grad_input, const at::Tensor& grad, int64_t reduction) {
  grad_input.copy_(reduction == kMean ? grad / grad.numel() : grad);
}

}  // namespace

void l1_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                      const at::Tensor& target, int64_t reduction, const at::Tensor& grad_input) {
  store_gradient(grad_input, at::sign(self - target) * grad_output, reduction);
}

void bce_with_logits_backward(const at::Tensor& grad_output, const at::Tensor& self,
                              const at::Tensor& target, const at::Tensor& weight,
                              const at::Tensor& pos_weight, int64_t reduction,
                              const at::Tensor& grad_input) {
  const at::Tensor probability = at::sigmoid(self);
  at::Tensor grad = pos_weight.defined()
                        ? probability * (1 + (pos_weight - 1) * target) - pos_weight * target
                        : probability - target;
  if (weight.defined()) {
    grad = grad * weight;
  }
  store_gradient(grad_input, grad * grad_output, reduction);
}

void kl_div_backward(const at::Tensor& grad_output, const at::Tensor& /*self*/,
                     const at::Tensor& target, int64_t reduction, bool log_target,
                     const at::Tensor& grad_input) {
  const at::Tensor probability = log_target ? at::exp(target) : target;
  store_gradient(grad_input, (probability * grad_output).neg(), reduction);
}

}  // namespace softnpu::ops::kernels
