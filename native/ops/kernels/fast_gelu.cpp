// x * sigmoid(1.702 x), the approximation that op-plugin documents for npu_fast_gelu.
#include <ATen/ops/sigmoid.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {
constexpr double kSlope = 1.702;
}

void fast_gelu(const at::Tensor& self, const at::Tensor& out) {
  const at::Tensor x = self.to(at::kFloat);
  out.copy_(x * at::sigmoid(x * kSlope));
}

void fast_gelu_backward(const at::Tensor& grad, const at::Tensor& self,
                        const at::Tensor& grad_input) {
  const at::Tensor x = self.to(at::kFloat);
  const at::Tensor gate = at::sigmoid(x * kSlope);
  grad_input.copy_(grad.to(at::kFloat) * (gate + x * kSlope * gate * (1 - gate)));
}

}  // namespace softnpu::ops::kernels
