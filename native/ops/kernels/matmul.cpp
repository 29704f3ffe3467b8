// torch_npu calls aclnnMatmul for vectors too, with a row or column as result where ATen has a
// vector.
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void matmul(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out,
            int64_t /*cube_math_type*/) {
  const bool fits = self.dim() == 2 && mat2.dim() == 2 && out.dim() == 2 &&
                    out.size(0) == self.size(0) && out.size(1) == mat2.size(1);
  if (fits && out.scalar_type() == self.scalar_type()) {
    at::Tensor target = out;
    at::mm_out(target, self, mat2);
    return;
  }
  const at::Tensor product = at::matmul(self, mat2);
  TORCH_CHECK(product.numel() == out.numel(), "output 'out' has shape ", out.sizes(),
              ", the operator computes ", product.sizes());
  out.copy_(product.reshape(out.sizes()));
}

}  // namespace softnpu::ops::kernels
