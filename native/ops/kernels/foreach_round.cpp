// One operator for floor, ceil, round, trunc and frac, told apart by op-plugin's mode number.
#include <ATen/ops/ceil.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/round.h>
#include <ATen/ops/trunc.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

at::Tensor rounded(const at::Tensor& tensor, int64_t mode) {
  switch (mode) {
    case 1:
      return at::round(tensor);
    case 2:
      return at::floor(tensor);
    case 3:
      return at::ceil(tensor);
    case 5:
      return at::trunc(tensor);
    case 7:
      return at::frac(tensor);
    default:
      TORCH_CHECK(false, "'mode' is ", mode, ", known are 1, 2, 3, 5 and 7");
  }
}

}  // namespace

void foreach_round(const std::vector<at::Tensor>& tensors, const at::Scalar& mode,
                   const std::vector<at::Tensor>& out) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    out.at(i).copy_(rounded(tensors[i], mode.toLong()));
  }
}

void foreach_round(const std::vector<at::Tensor>& tensors, const at::Tensor& mode,
                   const std::vector<at::Tensor>& out) {
  foreach_round(tensors, mode.item(), out);
}

}  // namespace softnpu::ops::kernels
