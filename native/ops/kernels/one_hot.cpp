#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

void one_hot(const at::Tensor& self, int64_t depth, const at::Tensor& on_value,
             const at::Tensor& off_value, int64_t axis, const at::Tensor& out) {
  const int64_t place = axis < 0 ? axis + self.dim() + 1 : axis;
  std::vector<int64_t> shape(self.dim() + 1, 1);
  shape[place] = depth;
  const at::Tensor classes = at::arange(depth, self.options()).reshape(shape);
  const at::Tensor hit = self.unsqueeze(place).eq(classes);
  out.copy_(at::where(hit, on_value.reshape({}), off_value.reshape({})));
}

}  // namespace softnpu::ops::kernels
