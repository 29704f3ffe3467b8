// A divisor of zero stands for "none".
#include <ATen/ops/avg_pool2d.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void avg_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                int64_t divisor_override, int64_t /*cube_math_type*/, const at::Tensor& out) {
  const auto divisor = divisor_override == 0 ? std::nullopt : std::optional(divisor_override);
  out.copy_(at::avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor));
}

}  // namespace softnpu::ops::kernels
