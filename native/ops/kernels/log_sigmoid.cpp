// The device keeps nothing between forward and backward: op-plugin passes a buffer of size zero.
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void log_sigmoid_forward(const at::Tensor& self, const at::Tensor& out,
                         const at::Tensor& /*buffer*/) {
  out.copy_(at::log_sigmoid(self));
}

void log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& self,
                          const at::Tensor& /*buffer*/, const at::Tensor& grad_input) {
  grad_input.copy_(grad_output * at::sigmoid(-self));
}

}  // namespace softnpu::ops::kernels
