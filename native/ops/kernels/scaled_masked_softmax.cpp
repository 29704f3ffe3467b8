// softmax(x * scale) over the last dimension; where the mask is true the score is -10000, the value
// that the fused operator of Megatron-style models uses.
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/softmax.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

// Undefined when nothing is masked.
at::Tensor effective_mask(const at::Tensor& scores, const at::Tensor& mask, bool fixed_triu_mask) {
  if (fixed_triu_mask) {
    return scores.new_ones({scores.size(-2), scores.size(-1)}).triu(1).to(at::kBool);
  }
  return mask.defined() ? mask.to(at::kBool) : mask;
}

}  // namespace

void scaled_masked_softmax(const at::Tensor& self, const at::Tensor& mask, double scale,
                           bool fixed_triu_mask, const at::Tensor& out) {
  constexpr double kMasked = -10000.0;
  at::Tensor scores = self.to(at::kFloat) * scale;
  if (const at::Tensor hidden = effective_mask(scores, mask, fixed_triu_mask); hidden.defined()) {
    scores = scores.masked_fill(hidden, kMasked);
  }
  out.copy_(at::softmax(scores, -1));
}

void scaled_masked_softmax_backward(const at::Tensor& y_grad, const at::Tensor& y,
                                    const at::Tensor& mask, double scale, bool fixed_triu_mask,
                                    const at::Tensor& grad_input) {
  at::Tensor grad = at::_softmax_backward_data(y_grad.to(at::kFloat).contiguous(),
                                               y.to(at::kFloat).contiguous(), -1, at::kFloat);
  grad = grad * scale;
  if (const at::Tensor hidden = effective_mask(grad, mask, fixed_triu_mask); hidden.defined()) {
    grad = grad.masked_fill(hidden, 0);
  }
  grad_input.copy_(grad);
}

}  // namespace softnpu::ops::kernels
