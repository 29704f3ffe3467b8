// Batch normalisation; the running statistics are updated in place while training.
#include <ATen/ops/native_batch_norm.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {
std::optional<at::Tensor> given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Outside training there are no batch statistics; torch_npu's outputs then have nothing to receive.
void store_statistics(const at::Tensor& out, const at::Tensor& result) {
  if (result.numel() == out.numel()) {
    out.copy_(result);
  } else {
    out.zero_();
  }
}
}  // namespace

void batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& running_mean, const at::Tensor& running_var, bool training,
                double momentum, double eps, const at::Tensor& out, const at::Tensor& mean,
                const at::Tensor& invstd) {
  const auto [y, m, i] =
      at::native_batch_norm(input, given(weight), given(bias), given(running_mean),
                            given(running_var), training, momentum, eps);
  out.copy_(y);
  store_statistics(mean, m);
  store_statistics(invstd, i);
}

}  // namespace softnpu::ops::kernels
