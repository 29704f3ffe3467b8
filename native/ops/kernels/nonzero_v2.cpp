#include <ATen/ops/nonzero.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// One row per dimension, one column per element found.
void nonzero_v2(const at::Tensor& self, const DynamicOutput& out) {
  out.set(at::nonzero(self).t().contiguous());
}

}  // namespace softnpu::ops::kernels
