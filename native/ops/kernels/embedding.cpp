#include <ATen/ops/index_select.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// Rows of `weight`, straight into the output.
void embedding(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& out) {
  const int64_t width = weight.size(1);
  TORCH_CHECK(out.numel() == indices.numel() * width, "output 'out' has shape ", out.sizes(),
              ", the operator computes ", indices.numel(), " rows of ", width);
  if (out.is_contiguous()) {
    at::Tensor rows = out.view({indices.numel(), width});
    at::index_select_out(rows, weight, 0, indices.reshape({-1}));
  } else {
    out.copy_(at::index_select(weight, 0, indices.reshape({-1})).reshape(out.sizes()));
  }
}

}  // namespace softnpu::ops::kernels
