#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// The backward of dropout with an explicit mask: self * mask * scale.
void masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale,
                  const at::Tensor& out) {
  out.copy_(self.to(at::kFloat) * mask.to(at::kFloat) * scale);
}

}  // namespace softnpu::ops::kernels
