#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void aminmax(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, const at::Tensor& min,
             const at::Tensor& max) {
  min.copy_(at::amin(self, dim, keepdim));
  max.copy_(at::amax(self, dim, keepdim));
}

}  // namespace softnpu::ops::kernels
