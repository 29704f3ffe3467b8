// index_fill whose indices are host numbers.
#include <ATen/ops/tensor.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void index_fill_list(const at::Tensor& self, int64_t dim, at::IntArrayRef index,
                     const at::Scalar& value) {
  self.index_fill_(dim, at::tensor(index, at::TensorOptions(at::kLong)), value);
}

void index_fill_list(const at::Tensor& self, int64_t dim, at::IntArrayRef index,
                     const at::Scalar& value, const at::Tensor& out) {
  out.copy_(self);
  index_fill_list(out, dim, index, value);
}

}  // namespace softnpu::ops::kernels
