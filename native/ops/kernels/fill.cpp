// Fills whose value lies in device memory; op-plugin passes it with zero or one dimension.
#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void fill_tensor(const at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.numel() == 1, "'value' has ", value.numel(), " elements, needs one");
  self.fill_(value.reshape({}));
}

void masked_fill_tensor(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.numel() == 1, "'value' has ", value.numel(), " elements, needs one");
  self.masked_fill_(mask.to(at::kBool), value.reshape({}));
}

}  // namespace softnpu::ops::kernels
