// Group normalisation followed by SiLU.
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/silu.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void group_norm_silu(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     int64_t group, double eps, const at::Tensor& out, const at::Tensor& mean,
                     const at::Tensor& rstd) {
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor.contiguous()) : std::nullopt;
  };
  const int64_t batch = input.size(0);
  const int64_t channels = input.size(1);
  const int64_t inner = batch * channels == 0 ? 0 : input.numel() / (batch * channels);
  const auto [y, m, r] = at::native_group_norm(input.contiguous(), optional(weight), optional(bias),
                                               batch, channels, inner, group, eps);
  out.copy_(at::silu(y));
  mean.copy_(m);
  rstd.copy_(r);
}

}  // namespace softnpu::ops::kernels
