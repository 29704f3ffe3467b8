// A negative eps stands for "none".
#include <ATen/ops/logit.h>
#include <ATen/ops/logit_backward.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {
std::optional<double> positive_or_none(double eps) {
  return eps < 0 ? std::nullopt : std::optional(eps);
}
}  // namespace

void logit(const at::Tensor& self, double eps, const at::Tensor& out) {
  out.copy_(at::logit(self, positive_or_none(eps)));
}

void logit_grad(const at::Tensor& self, const at::Tensor& grad_output, double eps,
                const at::Tensor& grad_input) {
  grad_input.copy_(at::logit_backward(grad_output, self, positive_or_none(eps)));
}

}  // namespace softnpu::ops::kernels
