#include <ATen/ops/convolution.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// A convolution with one group per input channel.
void conv_depthwise2d(const at::Tensor& self, const at::Tensor& weight,
                      at::IntArrayRef /*kernel_size*/, const at::Tensor& bias,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                      const at::Tensor& out, int64_t /*cube_math_type*/) {
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  const int64_t no_padding[] = {0, 0};
  out.copy_(at::convolution(self, weight, given, stride, padding, dilation, false, no_padding,
                            self.size(-3)));
}

}  // namespace softnpu::ops::kernels
