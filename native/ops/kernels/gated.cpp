// Activations that gate one half of a dimension with the other. Half types are computed in fp32.
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& self, int64_t dim) {
  const int64_t size = self.size(dim);
  TORCH_CHECK(size % 2 == 0, "dimension ", dim, " has the odd size ", size);
  const at::Tensor x = self.to(at::kFloat);
  return {x.narrow(dim, 0, size / 2), x.narrow(dim, size / 2, size / 2)};
}

}  // namespace

void swiglu(const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  const auto [gate, value] = halves(self, dim);
  put(at::silu(gate) * value, out, "out");
}

void swiglu_grad(const at::Tensor& grad_output, const at::Tensor& self, int64_t dim,
                 const at::Tensor& grad_input) {
  const auto [gate, value] = halves(self, dim);
  const at::Tensor grad = grad_output.to(at::kFloat);
  const at::Tensor sigmoid = at::sigmoid(gate);
  const at::Tensor slope = sigmoid * (1 + gate * (1 - sigmoid));
  put(at::cat({grad * value * slope, grad * gate * sigmoid}, dim), grad_input, "grad_input");
}

// `approximate` 1 is tanh, 0 is exact; without `activate_left` the right half is the gate.
void geglu(const at::Tensor& self, int64_t dim, int64_t approximate, bool activate_left,
           const at::Tensor& out, const at::Tensor& gelu) {
  auto [value, gate] = halves(self, dim);
  if (activate_left) {
    std::swap(value, gate);
  }
  const at::Tensor activated = at::gelu(gate, approximate == 1 ? "tanh" : "none");
  put(activated, gelu, "gelu");
  put(value * activated, out, "out");
}

void geglu_grad(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& gelu,
                int64_t dim, int64_t approximate, bool activate_left,
                const at::Tensor& grad_input) {
  auto [value, gate] = halves(self, dim);
  if (activate_left) {
    std::swap(value, gate);
  }
  const at::Tensor grad = grad_output.to(at::kFloat);
  const at::Tensor to_value = grad * gelu.to(at::kFloat);
  const at::Tensor to_gate =
      at::gelu_backward(grad * value, gate, approximate == 1 ? "tanh" : "none");
  put(activate_left ? at::cat({to_gate, to_value}, dim) : at::cat({to_value, to_gate}, dim),
      grad_input, "grad_input");
}

void gelu_mul(const at::Tensor& self, const std::string& approximate, const at::Tensor& out) {
  const auto [gate, value] = halves(self, -1);
  put(at::gelu(gate, approximate) * value, out, "out");
}

}  // namespace softnpu::ops::kernels
