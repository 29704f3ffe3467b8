// softmax(x * scale) over the last dimension; where the mask is true the score is -10000, the value
// that the fused operator of Megatron-style models uses.
#include <ATen/ops/softmax.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void scaled_masked_softmax(const at::Tensor& self, const at::Tensor& mask, double scale,
                           bool fixed_triu_mask, const at::Tensor& out) {
  constexpr double kMasked = -10000.0;
  at::Tensor scores = self.to(at::kFloat) * scale;
  if (fixed_triu_mask) {
    const at::Tensor upper = at::Tensor(scores.new_ones({scores.size(-2), scores.size(-1)})).triu(1);
    scores = scores.masked_fill(upper.to(at::kBool), kMasked);
  } else if (mask.defined()) {
    scores = scores.masked_fill(mask.to(at::kBool), kMasked);
  }
  out.copy_(at::softmax(scores, -1));
}

}  // namespace softnpu::ops::kernels
