// Matrix decompositions whose outputs torch_npu passes in another form than ATen's.
#include <ATen/ops/linalg_cholesky.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void cholesky(const at::Tensor& self, bool upper, const at::Tensor& out) {
  out.copy_(at::linalg_cholesky(self, upper));
}

void svd(const at::Tensor& self, bool full_matrices, bool compute_uv, const at::Tensor& S,
         const at::Tensor& U, const at::Tensor& V) {
  if (!compute_uv) {
    S.copy_(at::linalg_svdvals(self));
    return;
  }
  const auto [u, s, vh] = at::linalg_svd(self, full_matrices);
  S.copy_(s);
  U.copy_(u);
  V.copy_(vh.mH());
}

}  // namespace softnpu::ops::kernels
