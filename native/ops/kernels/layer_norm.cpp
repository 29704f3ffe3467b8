// Layer normalisation. Statistics are fp32 whatever the input, as torch_npu declares them.
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

at::Tensor widened(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

std::optional<at::Tensor> widened_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(widened(tensor)) : std::nullopt;
}

void store_as(const at::Tensor& out, const at::Tensor& result) {
  if (out.defined() && result.defined() && out.numel() == result.numel()) {
    out.copy_(result.view_as(out));
  }
}

}  // namespace

void layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const at::Tensor& weight,
                const at::Tensor& bias, double eps, const at::Tensor& out, const at::Tensor& mean,
                const at::Tensor& rstd) {
  const auto [y, m, r] = at::native_layer_norm(widened(input), normalized_shape,
                                               widened_or_none(weight), widened_or_none(bias), eps);
  out.copy_(y);
  store_as(mean, m);
  store_as(rstd, r);
}

void layer_norm_backward(const at::Tensor& grad_out, const at::Tensor& input,
                         at::IntArrayRef normalized_shape, const at::Tensor& mean,
                         const at::Tensor& rstd, const at::Tensor& weight, const at::Tensor& bias,
                         const std::vector<bool>& output_mask, const at::Tensor& grad_input,
                         const at::Tensor& grad_weight, const at::Tensor& grad_bias) {
  const std::array<bool, 3> mask{output_mask.at(0), output_mask.at(1), output_mask.at(2)};
  const auto [dx, dw, db] = at::native_layer_norm_backward(
      widened(grad_out), widened(input), normalized_shape, widened(mean), widened(rstd),
      widened_or_none(weight), widened_or_none(bias), mask);
  store_as(grad_input, dx);
  store_as(grad_weight, dw);
  store_as(grad_bias, db);
}

// x = x1 + x2 + bias, then layer normalisation over the shape of gamma.
void add_layer_norm(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                    const at::Tensor& beta, const at::Tensor& bias, double epsilon,
                    bool additional_output, const at::Tensor& y, const at::Tensor& mean,
                    const at::Tensor& rstd, const at::Tensor& x) {
  at::Tensor sum = widened(x1) + widened(x2);
  if (bias.defined()) {
    sum = sum + widened(bias);
  }
  if (additional_output) {
    store_as(x, sum);
  }
  layer_norm(sum, gamma.sizes(), gamma, beta, epsilon, y, mean, rstd);
}

}  // namespace softnpu::ops::kernels
