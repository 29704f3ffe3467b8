// Whole-tensor equality, as one bool on the device.
#include <ATen/ops/equal.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void equal(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  out.fill_(at::equal(self, other));
}

}  // namespace softnpu::ops::kernels
