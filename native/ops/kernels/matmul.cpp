// Matrix products. Half precision is multiplied in fp32 and rounded once, as the cube unit does;
// PyTorch's own fp16 product on a CPU without fp16 instructions is up to a hundred times slower.
// bf16 goes to PyTorch's kernels, which do the same.
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {
namespace {

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ? tensor.to(at::kFloat) : tensor;
}

bool plain(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  return self.scalar_type() != at::kHalf && out.scalar_type() == self.scalar_type() &&
         self.dim() == 2 && mat2.dim() == 2 && out.dim() == 2 && out.size(0) == self.size(0) &&
         out.size(1) == mat2.size(1);
}

}  // namespace

// torch_npu calls aclnnMatmul for vectors too, with a row or column as result where ATen has a
// vector.
void matmul(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out,
            int64_t /*cube_math_type*/) {
  if (plain(self, mat2, out)) {
    at::Tensor target = out;
    at::mm_out(target, self, mat2);
    return;
  }
  const at::Tensor product = at::matmul(wide(self), wide(mat2));
  TORCH_CHECK(product.numel() == out.numel(), "output 'out' has shape ", out.sizes(),
              ", the operator computes ", product.sizes());
  out.copy_(product.reshape(out.sizes()));
}

void mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out,
        int64_t /*cube_math_type*/) {
  if (plain(self, mat2, out)) {
    at::Tensor target = out;
    at::mm_out(target, self, mat2);
    return;
  }
  put(at::mm(wide(self), wide(mat2)), out);
}

void bmm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out,
         int64_t /*cube_math_type*/) {
  put(at::bmm(wide(self), wide(mat2)), out);
}

void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
           const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out,
           int64_t /*cube_math_type*/) {
  put(at::addmm(wide(self), wide(mat1), wide(mat2), beta, alpha), out);
}

void baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
             const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out,
             int64_t /*cube_math_type*/) {
  put(at::baddbmm(wide(self), wide(batch1), wide(batch2), beta, alpha), out);
}

}  // namespace softnpu::ops::kernels
